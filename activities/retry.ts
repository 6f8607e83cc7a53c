import { claimEvent } from '../src/store/claim.js';
import { announceClaims } from '../src/store/owed.js';
import { makeAttempt } from './attempt.js';
import { outcomeOf } from './claimAndAttempt.js';
import type { ActivityDeps } from './deps.js';
import type { AcceptedEvent, EventOutcome } from './outcome.js';

/** A workflow's own retries, all of one client. What was claimed and Redis lost since is claimed again. */
export async function attemptAgain(
  deps: ActivityDeps,
  events: (AcceptedEvent & { claim: number })[],
): Promise<EventOutcome[]> {
  return await Promise.all(
    events.map(async (event) => {
      const outcome = await makeAttempt(deps, event, 'retry');
      if (outcome.kind !== 'reclaim') return outcomeOf(outcome, event.claim);
      const [again] = await claimAgain(deps, [event]);
      return again as EventOutcome;
    }),
  );
}

/** Claims that failed or were lost, all of one client: owed afterwards and left to the caller. */
export async function claimAgain(deps: ActivityDeps, events: AcceptedEvent[]): Promise<EventOutcome[]> {
  await announceClaims(
    deps.db,
    events.map((e) => e.clientToken),
  );
  return await Promise.all(
    events.map(async (event): Promise<EventOutcome> => {
      const claim = await claimEvent(deps.db, event);
      switch (claim.kind) {
        case 'claimed':
        case 'mine':
          return { kind: 'owed', reason: 'not_due', inMs: 0, failures: 0, claim: claim.claim };
        case 'not_needed':
          return { kind: 'ended', state: 'not_needed' };
        case 'ended':
          return { kind: 'ended', state: claim.state };
      }
    }),
  );
}
