import { setTimeout as sleep } from 'node:timers/promises';
import { isRedisUnavailable } from '../../src/redis/connection/unavailable.js';

const forMs = 5000;
const pausesMs = { first: 50, longest: 500 };

/**
 * Repeats `ask` for some seconds while Redis does not answer; it must be safe to repeat.
 * @throws the error of `ask`, immediately if Redis answered
 */
export async function untilRedisAnswers<T>(ask: () => Promise<T>): Promise<T> {
  const end = performance.now() + forMs;
  for (let pauseMs = pausesMs.first; ; pauseMs = Math.min(2 * pauseMs, pausesMs.longest)) {
    try {
      return await ask();
    } catch (err) {
      if (!isRedisUnavailable(err) || performance.now() + pauseMs > end) throw err;
      await sleep(pauseMs);
    }
  }
}
