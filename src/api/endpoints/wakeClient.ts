import type { ApiDeps } from '../deps.js';
import { askTemporal } from './askTemporal.js';

/** Wakes the client's catch-up. @throws ApiError 503 */
export async function wakeClient({ catchUps, log }: ApiDeps, clientToken: string): Promise<void> {
  await askTemporal(log, catchUps.wakeNow(clientToken));
}
