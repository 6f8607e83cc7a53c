import type { NotificationList } from './jobs.js';

export interface Delivery {
  notificationId: string;
  acceptedAt: number;
  arrivedAt: number;
}

/** Counts of every accepted event by its fate. */
export interface Accounting {
  /** One for each notification, with its first arrival. */
  deliveries: Delivery[];
  /** Accepted events of which neither the notification nor a newer notification of the asset arrived. */
  missing: number;
  /** Accepted events whose notification did not arrive, but a later notification of the asset did. */
  superseded: number;
  /** Arrivals after the first of the same id. */
  duplicates: number;
  /** Arrivals of an id that no answer named: its request was accepted, but answered 503, or the answer was lost. */
  unannounced: number;
}

export function account(events: NotificationList, arrivals: NotificationList): Accounting {
  const firstArrival = new Map<string, number>();
  const lastOfAsset = new Map<string, number>();
  let duplicates = 0;
  arrivals.ids.forEach((id, i) => {
    const at = arrivals.at[i] ?? 0;
    if (firstArrival.has(id)) duplicates++;
    else firstArrival.set(id, at);
    lastOfAsset.set(arrivals.assets[i] ?? '', at);
  });

  const result: Accounting = {
    deliveries: [],
    missing: 0,
    superseded: 0,
    duplicates,
    unannounced: 0,
  };
  const announced = new Set(events.ids);
  events.ids.forEach((id, i) => {
    const acceptedAt = events.at[i] ?? 0;
    const arrivedAt = firstArrival.get(id);
    if (arrivedAt !== undefined) result.deliveries.push({ notificationId: id, acceptedAt, arrivedAt });
    else if ((lastOfAsset.get(events.assets[i] ?? '') ?? 0) > acceptedAt) result.superseded++;
    else result.missing++;
  });
  for (const id of firstArrival.keys()) if (!announced.has(id)) result.unannounced++;
  return result;
}
