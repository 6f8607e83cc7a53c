import { account } from './accounting.js';
import type { Child } from './child.js';
import {
  type Arrivals,
  type FromReceiver,
  type NotificationList,
  noArrivals,
  type ToReceiver,
} from './jobs.js';
import { monotonicMs } from './processUsage.js';

export type Receiver = Child<ToReceiver, FromReceiver>;

/** Long enough for two retries (after 5 s and 30 s). If no missing notification arrives for this long, none will. */
const stalledMs = 45_000;

/** How long to wait for duplicates once everything has arrived. */
const quietMs = 500;

/** Waits until all these events have arrived, or until no missing one has arrived for 45 s. Returns all arrivals. */
export async function drain(receiver: Receiver, events: NotificationList): Promise<Arrivals> {
  const all = noArrivals();
  let missing = Number.POSITIVE_INFINITY;
  let changedAt = monotonicMs();
  for (;;) {
    add(all, await collect(receiver));
    const now = monotonicMs();
    // Waits only for the events of this job: events of other publishers may arrive much later.
    const left = account(events, all).missing;
    if (left !== missing) changedAt = now;
    missing = left;
    if (now - changedAt > (missing === 0 ? quietMs : stalledMs)) return all;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

async function collect(receiver: Receiver): Promise<Arrivals> {
  const collected = receiver.next('collected');
  receiver.send({ kind: 'collect' });
  return (await collected).arrivals;
}

function add(all: Arrivals, more: Arrivals): void {
  for (const key of ['ids', 'at', 'assets', 'refused'] as const) {
    const into: unknown[] = all[key];
    for (const value of more[key]) into.push(value);
  }
  all.mostInFlight = Math.max(all.mostInFlight, more.mostInFlight);
}
