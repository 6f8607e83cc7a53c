import type { Db } from '../connection/db.js';
import { runTable } from '../connection/runScript.js';
import { script } from '../connection/script.js';

/** Why nothing is sent to a client now; `none` if something may be sent. */
export type Hold = 'none' | 'no_url' | 'paused' | 'held' | 'suspended' | 'failing' | 'not_before';

/** How far a client's deliveries are behind, and their bounds. Times are ms by Redis' clock. */
export interface Backlog {
  now: number;
  hold: Hold;
  /**
   * Since when the next attempt could have been made, or when it can be made. While nothing may be sent: when the owed
   * assets end as failed. Undefined if nothing waits.
   */
  dueAt?: number;
  /** Waiting assets that were due before `overdueBefore`. */
  overdue: number;
  overdueBefore: number;
  /** Attempts under way. */
  inFlight: number;
  /** The most attempts that may be under way at the same time. */
  places: number;
  /** The lowest rate that bounds the oldest waiting asset, per second; undefined if there is none. */
  perSecond?: number;
  /** When that rate allows the next attempt. */
  nextPlaceAt?: number;
  /** Whether exactly the waiting assets have an owed-since and a due time. */
  isConsistent: boolean;
}

const backlog = script('backlog');

export interface BacklogBounds {
  retentionMs: number;
  maxInFlight: number;
  drainPerSecond: number;
}

/**
 * Reads a client's backlog and changes nothing.
 * @param overdueMs an asset is overdue if it was due this long ago
 * @param overdueBefore used instead of `overdueMs`: the time of an earlier answer, to compare the two
 */
export async function readBacklog(
  db: Db,
  clientToken: string,
  { retentionMs, maxInFlight, drainPerSecond }: BacklogBounds,
  overdueMs: number,
  overdueBefore = 0,
): Promise<Backlog> {
  const q = {
    retention: retentionMs,
    places: maxInFlight,
    drain: drainPerSecond,
    overdue: overdueMs,
    overdue_before: overdueBefore,
  };
  const answer = (await runTable(db, backlog, clientToken, q)) as unknown[];
  const number = (i: number): number => Number(answer[i]);
  const perSecond = number(7);
  return {
    now: number(0),
    hold: answer[1] as Hold,
    ...(number(2) >= 0 && { dueAt: number(2) }),
    overdue: number(3),
    overdueBefore: number(4),
    inFlight: number(5),
    places: number(6),
    ...(perSecond > 0 && { perSecond, nextPlaceAt: number(8) }),
    isConsistent: number(9) === 1,
  };
}
