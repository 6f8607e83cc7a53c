import { withTimeout } from '../withTimeout.js';

export interface Readiness {
  status: 'ready' | 'not ready';
  redis: boolean;
  temporal: boolean;
}

/** How long one check serves all callers, and the longest that it may take: frequent callers cost nothing more. */
export const lookEveryMs = 1000;

/**
 * Checks whether this process can do its work: Redis answers, and the process was not told to stop. Temporal may be
 * unavailable: accepted events are owed in Redis, and all processes share the same Temporal.
 * @param ask asks each server; a call ends soon after `lookEveryMs`
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

/** Checks whether a server answers. While a call is under way no other is made. */
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
