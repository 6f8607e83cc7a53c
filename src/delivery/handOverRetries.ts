import type { ClaimedEvent } from '../redis/owed/claim.js';
import type { CatchUps } from '../temporal/catchUps.js';
import type { Outcome } from './outcome.js';

/** Hands retries beyond the short ones over to catch-up, which is woken if it would plan too late. */
export async function handOverRetries(
  catchUps: CatchUps,
  events: readonly ClaimedEvent[],
  outcomes: readonly Outcome[],
): Promise<void> {
  const soonestMs = new Map<string, number>();
  outcomes.forEach((outcome, i) => {
    // Catch-up already knows a client to which nothing may be sent.
    if (outcome.state !== 'waiting' || !['retry', 'not_due'].includes(outcome.reason)) return;
    const { clientToken } = events[i] as ClaimedEvent;
    soonestMs.set(clientToken, Math.min(soonestMs.get(clientToken) ?? outcome.inMs, outcome.inMs));
  });
  await Promise.all([...soonestMs].map(([clientToken, inMs]) => catchUps.wake(clientToken, inMs)));
}
