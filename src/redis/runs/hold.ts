import type { Db } from '../connection/db.js';
import { runScript } from '../connection/runScript.js';
import { script } from '../connection/script.js';
import type { RunState } from './runs.js';

const hold = script('holdRun');

/**
 * Has a client follow the state of a run: what is paused or cancelled is sent no more. A newer version that the client
 * follows already stays.
 */
export async function holdRun(
  db: Db,
  clientToken: string,
  { runId, state, version }: { runId: string; state: RunState; version: number },
): Promise<void> {
  await runScript(db, hold, clientToken, [runId, version, state === 'active' ? '' : state]);
}
