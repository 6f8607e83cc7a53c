import type { ClaimedEvent } from '../redis/owed/claim.js';
import type { CatchUps } from '../temporal/catchUps.js';
import type { Outcome } from './outcome.js';

/** Leaves to catch-up what its retries later than the short ones will deliver: it is woken where it would look too late. */
export async function handOver(
  catchUps: CatchUps,
  events: readonly ClaimedEvent[],
  outcomes: readonly Outcome[],
): Promise<void> {
  const soonestMs = new Map<string, number>();
  outcomes.forEach((outcome, i) => {
    // Catch-up knows already of a client that may not be sent anything.
    if (outcome.state !== 'waiting' || !['retry', 'not_due'].includes(outcome.reason)) return;
    const { clientToken } = events[i] as ClaimedEvent;
    soonestMs.set(clientToken, Math.min(soonestMs.get(clientToken) ?? outcome.inMs, outcome.inMs));
  });
  await Promise.all([...soonestMs].map(([clientToken, inMs]) => catchUps.wake(clientToken, inMs)));
}
