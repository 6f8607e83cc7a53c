/** What became of a notification, as attempts, workflows and their results tell each other. Ids, counts and words only. */
import type { RefusedReason } from '../redis/owed/take.js';

export type Outcome = Ended | Waiting;

export interface Ended {
  /** `unknown`: it was ended elsewhere and its record is gone. */
  state: 'delivered' | 'superseded' | 'not_needed' | 'failed' | 'cancelled' | 'unknown';
  /** Of the attempt that ended it. */
  status?: number;
  milliseconds?: number;
}

/** Still owed. */
export interface Waiting {
  state: 'waiting';
  /**
   * `under_way`: it is not over yet; `retry`: its attempt failed; `own_failure`: it could not be made, for a reason of this process's own;
   * `queue_full`: more of its client waits than the engine holds; the others: why `take` refused it.
   */
  reason: RefusedReason | 'under_way' | 'retry' | 'own_failure' | 'queue_full';
  /** Until it may be tried again; -1 where only a change from outside helps. */
  inMs: number;
  /** Failed attempts so far. */
  failures: number;
  status?: number;
  error?: string;
  /** Host and path of the failed attempt. */
  target?: string;
}

/** Retries within minutes, which a workflow sees to; what is owed after them is catch-up's. */
export const shortRetries = 3;

/** Whether its workflow tries it again; the rest is catch-up's. */
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
