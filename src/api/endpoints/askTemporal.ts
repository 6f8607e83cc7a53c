import type { Logger } from '../../log.js';
import { withTimeout } from '../../withTimeout.js';
import { unavailable } from '../apiError.js';

const answerWithinMs = 1800;

/** A call to Temporal that answers in time or is a 503: while Temporal is away calls have no deadline of their own. */
export async function askTemporal<T>(log: Logger, call: Promise<T>): Promise<T> {
  try {
    return await withTimeout(call, answerWithinMs, () => {
      throw new Error('no answer in time');
    });
  } catch (err) {
    log.warn({ reason: err instanceof Error ? err.message : 'unknown' }, 'Temporal did not take a call');
    throw unavailable();
  }
}
