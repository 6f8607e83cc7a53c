import type { Db } from '../connection/db.js';
import { runScript } from '../connection/runScript.js';
import { script } from '../connection/script.js';

/** Contract, section 5: one call in 5 s, bursts of 5. */
export const sendEveryMs = 5000;
export const sendBurst = 5;

const takeSend = script('takeSend');

/**
 * Counts a call of the client that sends something, over all such calls and all processes.
 * @returns 0, or how long the caller must wait, ms
 */
export async function takeSendCall(db: Db, clientToken: string): Promise<number> {
  return (await runScript(db, takeSend, clientToken, [sendEveryMs, sendBurst])) as number;
}
