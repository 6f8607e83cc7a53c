import { claimAndAttempt } from './claimAndAttempt.js';
import type { ActivityDeps } from './deps.js';
import { drain } from './drain.js';
import { type LeftToCatchUp, leaveToCatchUp } from './leaveToCatchUp.js';
import type { AcceptedEvent, EventOutcome } from './outcome.js';
import { attemptRedelivery } from './redelivery.js';
import { attemptAgain, claimAgain } from './retry.js';
import { sweepOwedClients } from './sweep.js';

/** Every activity, closed over what it needs. */
export function createActivities(deps: ActivityDeps) {
  return {
    claimAndAttempt: (events: AcceptedEvent[]): Promise<EventOutcome[]> => claimAndAttempt(deps, events),
    attempt: (events: (AcceptedEvent & { claim: number })[]) => attemptAgain(deps, events),
    claimAgain: (events: AcceptedEvent[]) => claimAgain(deps, events),
    leaveToCatchUp: (left: LeftToCatchUp) => leaveToCatchUp(deps, left),
    drain: (clientToken: string) => drain(deps, clientToken),
    attemptRedelivery: (item: { clientToken: string; platformId: string; notificationId: string }) =>
      attemptRedelivery(deps, item),
    sweepOwedClients: () => sweepOwedClients(deps),
  };
}

export type Activities = ReturnType<typeof createActivities>;
