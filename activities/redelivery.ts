import { makeAttempt } from './attempt.js';
import { outcomeOf } from './claimAndAttempt.js';
import type { ActivityDeps } from './deps.js';
import type { OwedOutcome } from './outcome.js';

export type RedeliveryOutcome = { kind: 'ended'; state: string; status?: number } | OwedOutcome;

/** Sends an ended notification again, under its own id, whatever is newer. */
export async function attemptRedelivery(
  deps: ActivityDeps,
  item: { clientToken: string; platformId: string; notificationId: string },
): Promise<RedeliveryOutcome> {
  const outcome = outcomeOf(await makeAttempt(deps, item, 'redeliver'), 0);
  return outcome.kind === 'unclaimed' ? { kind: 'ended', state: 'unknown' } : outcome;
}
