import { isRedisUnavailable } from './unavailable.js';

/**
 * Does one client's part of a longer work, so that its broken keys do not stop the parts of other clients.
 *
 * @param onBroken is called with the error of the work
 * @returns the result of the work; undefined if it threw
 * @throws if Redis is unavailable
 */
export async function unlessBroken<T>(work: () => Promise<T>, onBroken: (err: unknown) => unknown) {
  try {
    return await work();
  } catch (err) {
    if (isRedisUnavailable(err)) throw err;
    await onBroken(err);
    return undefined;
  }
}
