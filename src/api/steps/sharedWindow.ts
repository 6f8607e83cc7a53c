import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import type { Db } from '../../redis/connection/db.js';

/** The result of a count: whether it is over the limit, how many are left, and when the window of its key ends. */
export interface Counted {
  isOver: boolean;
  left: number;
  msBeforeNext: number;
}

/**
 * Counts by key, in windows that begin with a key's first count: in Redis over all processes; while Redis is unavailable,
 * in the memory of each.
 * @param window `points` counts in `duration` seconds
 */
export function sharedWindow(
  db: Db,
  keyPrefix: string,
  window: { points: number; duration: number; inMemoryBlockOnConsumed?: number },
): (key: string) => Promise<Counted> {
  const insuranceLimiter = new RateLimiterMemory(window);
  const limiter = new RateLimiterRedis({ storeClient: db.redis, keyPrefix, insuranceLimiter, ...window });
  return async (key) => {
    try {
      const { remainingPoints, msBeforeNext } = await limiter.consume(key);
      return { isOver: false, left: remainingPoints, msBeforeNext };
    } catch (err) {
      if (!(err instanceof RateLimiterRes)) throw err;
      return { isOver: true, left: 0, msBeforeNext: err.msBeforeNext };
    }
  };
}
