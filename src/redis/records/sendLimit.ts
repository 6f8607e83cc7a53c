import type { Db } from '../connection/db.js';
import { runScript } from '../connection/library.js';

/** Contract, section 5: one call in 5 s, bursts of 5. */
export const sendEveryMs = 5000;
export const sendBurst = 5;

/**
 * Counts a call of the client that sends something, over all such calls and all processes.
 * @param sends how many to count together, all or none: 1, or the whole burst. A bucket that gets one every 25 s and
 * holds one is equivalent to all 5 of a bucket that gets one every 5 s.
 * @returns 0, or how long the caller must wait, ms
 */
export async function takeSendCall(db: Db, clientToken: string, sends: 1 | 5 = 1): Promise<number> {
  return (await runScript(db, 'takeSend', clientToken, [sendEveryMs * sends, sendBurst / sends])) as number;
}
