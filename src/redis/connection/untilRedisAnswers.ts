import { setTimeout as sleep } from 'node:timers/promises';
import { isRedisUnavailable } from './db.js';

const forMs = 5000;

/**
 * Repeats `ask` for some seconds while Redis does not answer; it must be safe to repeat.
 * @throws the error of `ask`, immediately if Redis answered
 */
export async function untilRedisAnswers<T>(ask: () => Promise<T>): Promise<T> {
  const end = Date.now() + forMs;
  for (let pauseMs = 50; ; pauseMs *= 2) {
    try {
      return await ask();
    } catch (err) {
      if (!isRedisUnavailable(err) || Date.now() + pauseMs > end) throw err;
      await sleep(pauseMs);
    }
  }
}
