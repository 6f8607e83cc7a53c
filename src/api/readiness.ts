import { withTimeout } from '../withTimeout.js';

export interface Readiness {
  status: 'ready' | 'not ready';
  redis: boolean;
  temporal: boolean;
}

/** For as long one look serves all who ask, and no call of it lasts longer: who asks a lot costs nothing more. */
export const lookEveryMs = 1000;

/**
 * Tells whether this process can do its work: Redis answers, and it was not told to end. Temporal may be away: what is taken
 * is owed in Redis, and no other process has a Temporal that this one has not.
 * @param ask asks each server; a call ends by itself soon after `lookEveryMs`
 */
export function createReadiness(ask: {
  redis: () => Promise<unknown>;
  temporal: () => Promise<unknown>;
  ending: () => boolean;
}): () => Promise<Readiness> {
  const lookAtRedis = sharedLook(ask.redis);
  const lookAtTemporal = sharedLook(ask.temporal);
  return async () => {
    const [redis, temporal] = await Promise.all([lookAtRedis(), lookAtTemporal()]);
    return { status: redis && !ask.ending() ? 'ready' : 'not ready', redis, temporal };
  };
}

/** Tells whether a server answers. While a call is still under way no other is made. */
function sharedLook(ask: () => Promise<unknown>): () => Promise<boolean> {
  let beganAtMs = Number.NEGATIVE_INFINITY;
  let isUnderWay = false;
  let answer = Promise.resolve(false);
  return () => {
    const nowMs = performance.now();
    if (!isUnderWay && nowMs - beganAtMs >= lookEveryMs) {
      beganAtMs = nowMs;
      isUnderWay = true;
      const asked = ask().then(
        () => true,
        () => false,
      );
      answer = withTimeout(asked, lookEveryMs, () => false);
      void asked.then(() => {
        isUnderWay = false;
      });
    }
    return answer;
  };
}
