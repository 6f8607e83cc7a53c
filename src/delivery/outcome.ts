/** The outcome of a notification, as attempts report it to workflows and workflows to people. It never has a URL's query. */
import type { RefusedReason } from '../redis/owed/take.js';

export type Outcome = Ended | Waiting;

export interface Ended {
  /** `unknown`: it ended elsewhere and its record is gone. */
  state: 'delivered' | 'superseded' | 'not_needed' | 'failed' | 'cancelled' | 'unknown';
  /** Of the attempt that ended it. */
  status?: number;
  milliseconds?: number;
}

/** Still owed. */
export interface Waiting {
  state: 'waiting';
  /**
   * `under_way`: its attempt is not over; `retry`: its attempt failed; `own_failure`: this process could not make the attempt;
   * `queue_full`: as many events wait as the engine holds; the others: why `take` refused it.
   */
  reason: RefusedReason | 'under_way' | 'retry' | 'own_failure' | 'queue_full';
  /** Until it may be attempted again; -1 if it waits for a change from outside. */
  inMs: number;
  /** Failed attempts so far. */
  failures: number;
  status?: number;
  error?: string;
  /** Host and path of the failed attempt. */
  target?: string;
}

/** The number of retries that a workflow makes, within minutes; catch-up makes the later ones. */
export const shortRetries = 3;

/** Whether its workflow attempts it again; otherwise catch-up does, if it is still owed. */
export function isRetriedShortly(outcome: Outcome): outcome is Waiting {
  if (outcome.state !== 'waiting') return false;
  switch (outcome.reason) {
    case 'retry':
    case 'not_due':
      return outcome.failures <= shortRetries;
    case 'under_way':
    case 'leased':
    case 'own_failure':
      return true;
    default:
      return false;
  }
}
