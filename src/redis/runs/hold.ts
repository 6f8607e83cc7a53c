import type { Db } from '../connection/db.js';
import { runScript } from '../connection/runScript.js';
import { script } from '../connection/script.js';
import type { RunState } from './runs.js';

const hold = script('holdRun');

/**
 * Copies the state of a run to a client: notifications of a paused or cancelled run are no longer sent there. A newer version
 * at the client stays.
 */
export async function holdRun(
  db: Db,
  clientToken: string,
  { runId, state, version }: { runId: string; state: RunState; version: number },
): Promise<void> {
  await runScript(db, hold, clientToken, [runId, version, state === 'active' ? '' : state]);
}
