import type { Arrivals, PublishedEvents } from './jobs.js';

export interface Delivery {
  notificationId: string;
  acceptedAt: number;
  arrivedAt: number;
}

/** What became of every accepted event. */
export interface Accounting {
  /** By the first arrival of each notification. */
  deliveries: Delivery[];
  /** Accepted, never arrived, and no newer notification of the same asset arrived either. */
  missing: number;
  /** Never arrived itself, but a notification of the same asset did after it was accepted. */
  superseded: number;
  /** Arrivals after the first of the same id. */
  duplicates: number;
  /** Arrivals of an id that no answer named: taken by a request whose answer was a 503 or got lost. */
  unannounced: number;
  /** Accepted for the endpoint that is down. */
  down: number;
}

export function account(
  events: PublishedEvents,
  arrivals: Pick<Arrivals, 'ids' | 'at' | 'assets'>,
): Accounting {
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
    down: 0,
  };
  const announced = new Set(events.notificationIds);
  events.notificationIds.forEach((id, i) => {
    const acceptedAt = events.at[i] ?? 0;
    const arrivedAt = firstArrival.get(id);
    if (arrivedAt !== undefined) result.deliveries.push({ notificationId: id, acceptedAt, arrivedAt });
    else if (events.down[i]) result.down++;
    else if ((lastOfAsset.get(events.assets[i] ?? '') ?? 0) > acceptedAt) result.superseded++;
    else result.missing++;
  });
  for (const id of firstArrival.keys()) if (!announced.has(id)) result.unannounced++;
  return result;
}
