import type { Logger } from '../../log.js';
import { withTimeout } from '../../withTimeout.js';
import { unavailable } from '../apiError.js';
import type { ApiDeps } from '../deps.js';

const answerWithinMs = 1800;

/** Waits for a call to Temporal, at most 1.8 s: while it is unavailable calls have no deadline. @throws ApiError 503 */
export async function askTemporal<T>(log: Logger, call: Promise<T>): Promise<T> {
  try {
    return await withTimeout(call, answerWithinMs, () => {
      throw new Error('no answer in time');
    });
  } catch (err) {
    log.warn({ reason: err instanceof Error ? err.message : 'unknown' }, 'a call to Temporal failed');
    throw unavailable('temporal does not answer');
  }
}

/** Wakes the client's catch-up. @throws ApiError 503 */
export async function wakeClient({ catchUps, log }: ApiDeps, clientToken: string): Promise<void> {
  await askTemporal(log, catchUps.wakeNow(clientToken));
}
