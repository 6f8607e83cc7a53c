/** What workflows and activities tell each other. Ids, counts and words only: it all lies in the history. */
import type { Arrived, Claimable } from '../src/store/claim.js';
import type { WaitReason } from '../src/store/plan.js';
import type { RefusedReason } from '../src/store/take.js';

/** An event that the API accepted and nothing has claimed yet. */
export type AcceptedEvent = Claimable;

/** One that may not have been looked at yet. */
export type ArrivedEvent = Arrived;

export interface OwedOutcome {
  kind: 'owed';
  /** `under_way`: its POST goes on under its lease. */
  reason: RefusedReason | 'retry' | 'under_way' | 'backfill';
  /** Until it may be tried again; -1 where only a change from outside helps. */
  inMs: number;
  failures: number;
  claim: number;
  status?: number;
  error?: string;
  /** It is on Redis' disk and catch-up knows: nothing is left to do for the workflow. */
  left?: true;
}

export type EventOutcome =
  | { kind: 'ended'; state: string; status?: number }
  | OwedOutcome
  /** Its claim failed for a reason of its own client's; the others of the group went on. */
  | { kind: 'unclaimed'; error: string };

export interface DrainResult {
  owed: number;
  /** ms since the epoch; 0 when nothing is owed. */
  oldestAt: number;
  delivered: number;
  failed: number;
  reason: WaitReason;
  inMs: number;
  /** There is work that is due now: come back at once. */
  more: boolean;
  lastError?: string;
}
