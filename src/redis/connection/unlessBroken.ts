import { isRedisUnavailable } from './db.js';

/**
 * Does one client's part of a longer work, so that its broken keys end none of the others'.
 *
 * @param onBroken is told what the work threw
 * @returns what the work returns; undefined where it threw
 * @throws where Redis is away
 */
export async function unlessBroken<T>(
  work: () => Promise<T>,
  onBroken: (err: unknown) => void | Promise<void>,
): Promise<T | undefined> {
  try {
    return await work();
  } catch (err) {
    if (isRedisUnavailable(err)) throw err;
    await onBroken(err);
    return undefined;
  }
}
