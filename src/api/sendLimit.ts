import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import type { Db } from '../store/db.js';
import { tooMany } from './apiError.js';
import type { Step } from './endpoint.js';
import type { ClientState } from './ownClient.js';

/** One in 5 s per client, bursts of 5, over all calls that send something and all processes. */
const bounds = { points: 5, duration: 25 };

export function limitSends(db: Db): Step<ClientState> {
  const limiter = new RateLimiterRedis({
    storeClient: db.redis,
    keyPrefix: db.global.sendLimit,
    insuranceLimiter: new RateLimiterMemory(bounds),
    ...bounds,
  });
  return async (ctx, next) => {
    await limiter.consume(ctx.state.client.clientToken).catch((err: unknown) => {
      if (!(err instanceof RateLimiterRes)) throw err;
      throw tooMany('Too many calls that send something for this client', err.msBeforeNext);
    });
    await next();
  };
}
