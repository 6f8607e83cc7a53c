import { isRedisUnavailable } from './db.js';

const forMs = 5000;

/**
 * Asks again for some seconds where Redis does not answer.
 * @param ask told when the first call was sent whose answer was lost (ms); undefined before one was
 * @throws what `ask` does, at once where Redis answered
 */
export async function untilRedisAnswers<T>(ask: (lostSince: number | undefined) => Promise<T>): Promise<T> {
  const started = Date.now();
  let lostSince: number | undefined;
  for (let pauseMs = 50; ; pauseMs *= 2) {
    try {
      return await ask(lostSince);
    } catch (err) {
      if (!isRedisUnavailable(err) || Date.now() + pauseMs > started + forMs) throw err;
      lostSince = started;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}
