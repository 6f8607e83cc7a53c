import { wakeCatchUp } from '../temporal/catchUp.js';
import { askTemporal } from './askTemporal.js';
import type { ApiDeps } from './deps.js';

/** Has what the client is owed looked at now. @throws ApiError 503 */
export async function wakeClient(deps: ApiDeps, clientToken: string): Promise<void> {
  const { temporal, db, config, log } = deps;
  await askTemporal(log, wakeCatchUp(temporal, db, clientToken, { taskQueue: config.TASK_QUEUE }));
}
