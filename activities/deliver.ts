import type { Outcome } from '../src/delivery/outcome.js';
import { type Report, reportOf } from '../src/delivery/report.js';
import { deliveryOf } from '../src/delivery/work.js';
import type { ClaimedEvent } from '../src/redis/owed/claim.js';
import type { ActivityDeps } from '../src/upkeep/deps.js';
import { withTimeout } from '../src/withTimeout.js';

/** A local activity keeps its workflow's task open: what is under way after this time is awaited by a regular one. */
const waitMs = 500;

const underWay: Outcome = { state: 'waiting', reason: 'under_way', inMs: 0, failures: 0 };

/** Joins what has begun of these events in this process, or begins it, and waits for a moment. */
export async function deliver({ engine }: ActivityDeps, events: ClaimedEvent[]): Promise<Report> {
  const outcomes = new Array<Outcome>(events.length).fill(underWay);
  const all = events.map(async (event, i) => {
    outcomes[i] = await engine.join(deliveryOf(event), 'first');
  });
  await withTimeout(Promise.all(all), waitMs, () => undefined);
  engine.forget(
    events.filter((_, i) => outcomes[i] !== underWay).map(({ notificationId }) => notificationId),
  );
  return reportOf(outcomes);
}

/** What these clients are owed is catch-up's: it is woken where it would come too late. */
export async function handOver({ catchUps }: ActivityDeps, clientTokens: string[]): Promise<void> {
  await Promise.all(clientTokens.map((clientToken) => catchUps.wake(clientToken, 0)));
}
