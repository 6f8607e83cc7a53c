import type { Child } from './child.js';
import { type FromReceiver, type NotificationList, noNotifications, type ToReceiver } from './jobs.js';
import { monotonicMs } from './processUsage.js';

export type Receiver = Child<ToReceiver, FromReceiver>;

/** Counts of every accepted event by its fate. */
export interface Accounting {
  /** One for each notification, with its first arrival. */
  deliveries: { acceptedAt: number; arrivedAt: number }[];
  /** Accepted events of which neither the notification nor a newer notification of the asset arrived. */
  missing: number;
  /** Arrivals after the first of the same id. */
  duplicates: number;
  /** Arrivals of an id that no answer named: its request was accepted, but answered 503, or the answer was lost. */
  unannounced: number;
}

export function account(events: NotificationList, arrivals: NotificationList): Accounting {
  const firstArrival = new Map<string, number>();
  const lastOfAsset = new Map<string, number>();
  arrivals.ids.forEach((id, i) => {
    const at = arrivals.at[i] ?? 0;
    if (!firstArrival.has(id)) firstArrival.set(id, at);
    lastOfAsset.set(arrivals.assets[i] ?? '', at);
  });
  const deliveries: Accounting['deliveries'] = [];
  let missing = 0;
  events.ids.forEach((id, i) => {
    const acceptedAt = events.at[i] ?? 0;
    const arrivedAt = firstArrival.get(id);
    if (arrivedAt !== undefined) deliveries.push({ acceptedAt, arrivedAt });
    else if ((lastOfAsset.get(events.assets[i] ?? '') ?? 0) <= acceptedAt) missing++;
  });
  const announced = new Set(events.ids);
  return {
    deliveries,
    missing,
    duplicates: arrivals.ids.length - firstArrival.size,
    unannounced: [...firstArrival.keys()].filter((id) => !announced.has(id)).length,
  };
}

/** Long enough for two retries (after 5 s and 30 s). If no missing notification arrives for this long, none will. */
const stalledMs = 45_000;

/** How long to wait for duplicates once everything has arrived. */
const quietMs = 500;

/** Waits until all these events have arrived, or until no missing one has arrived for 45 s. Returns all arrivals. */
export async function drain(receiver: Receiver, events: NotificationList): Promise<NotificationList> {
  const all = noNotifications();
  let missing = Number.POSITIVE_INFINITY;
  let changedAt = monotonicMs();
  for (;;) {
    add(all, await collect(receiver));
    const now = monotonicMs();
    const left = account(events, all).missing;
    if (left !== missing) changedAt = now;
    missing = left;
    if (now - changedAt > (missing === 0 ? quietMs : stalledMs)) return all;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

async function collect(receiver: Receiver): Promise<NotificationList> {
  const collected = receiver.next('collected');
  receiver.send({ kind: 'collect' });
  return (await collected).arrivals;
}

function add(all: NotificationList, more: NotificationList): void {
  for (const key of ['ids', 'at', 'assets'] as const) {
    const into: unknown[] = all[key];
    for (const value of more[key]) into.push(value);
  }
}
