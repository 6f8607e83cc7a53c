import type { Db } from '../connection/db.js';
import { evaluate } from '../connection/library.js';

/** So many calls at once, and as many again, evenly, in each window. */
export interface Rate {
  calls: number;
  windowSeconds: number;
}

export interface Counted {
  /** In how many ms the call may be made; 0: it was counted. */
  waitMs: number;
  /** In how many ms all calls are left again. */
  fullInMs: number;
}

/**
 * Counts a call of all processes towards a rate, unless the rate does not allow the call now.
 * @param isOwed counts it all the same: later calls wait for it @throws errors of Redis
 */
export async function countCall(
  db: Db,
  key: string,
  { calls, windowSeconds }: Rate,
  isOwed = false,
): Promise<Counted> {
  const args = [(windowSeconds * 1000) / calls, calls, isOwed ? 1 : 0];
  const [waitMs, fullInMs] = await evaluate<[number, number]>(db, 'countCall', [key], args);
  return { waitMs, fullInMs };
}
