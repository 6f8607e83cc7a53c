import type { ClaimedEvent } from '../redis/owed/claim.js';
import { withTimeout } from '../withTimeout.js';
import type { Engine } from './engine.js';
import type { Outcome } from './outcome.js';
import { toDelivery } from './work.js';

const underWay: Outcome = { state: 'waiting', reason: 'under_way', inMs: 0, failures: 0 };

/** Joins the first attempts of events, or begins them, and returns the outcome of each within `waitMs`. */
export async function deliverNow(
  engine: Engine,
  events: readonly ClaimedEvent[],
  waitMs: number,
): Promise<Outcome[]> {
  const outcomes = new Array<Outcome>(events.length).fill(underWay);
  const all = events.map(async (event, i) => {
    outcomes[i] = await engine.join(toDelivery(event), 'first');
  });
  await withTimeout(Promise.all(all), waitMs, () => undefined);
  engine.forget(
    events.filter((_, i) => outcomes[i] !== underWay).map(({ notificationId }) => notificationId),
  );
  return outcomes;
}
