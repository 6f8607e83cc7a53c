/**
 * How often tokens may be asked for.
 *
 * Per client id only tokens that were minted count, and failures count for one client id from one address: who does
 * not have the secret cannot use up what the customer may do from elsewhere. The first is counted in the memory of
 * each process (a Redis call less for each token; with n processes up to n times the rate), failures in Redis, so
 * that they add up over all processes; while Redis is away, in memory.
 */
import { createHash } from 'node:crypto';
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import type { Db } from '../store/db.js';
import { tooMany } from './apiError.js';

export interface TokenLimits {
  /** @throws ApiError 429 */
  refuseTooMany(clientId: string, address: string): Promise<void>;
  /** @throws ApiError 429 when others were faster */
  countToken(clientId: string): Promise<void>;
  /** @throws ApiError 429 when this failure is one too many */
  countFailure(clientId: string, address: string): Promise<void>;
}

/** Failures for one client id from one address. */
const failuresAllowed = 10;
const failuresWindowSeconds = 60;

export function createTokenLimits(db: Db, tokensPerSecond: number): TokenLimits {
  const tokens = new RateLimiterMemory({ points: tokensPerSecond, duration: 1 });
  const window = { points: failuresAllowed, duration: failuresWindowSeconds };
  const failures = new RateLimiterRedis({
    storeClient: db.redis,
    keyPrefix: db.global.tokenFailures,
    insuranceLimiter: new RateLimiterMemory(window),
    ...window,
  });
  // Who has failed too often is remembered here: the way of a good request needs no look-up.
  const refused = new RateLimiterMemory({ ...window, points: 1 });

  return {
    async refuseTooMany(clientId, address) {
      const [failed, minted] = await Promise.all([
        refused.get(failureKey(clientId, address)),
        tokens.get(clientId),
      ]);
      if (failed) throw tooMany('Too many failures, please try again later', failed.msBeforeNext);
      if (minted && minted.remainingPoints <= 0) throw tooManyTokens(minted);
    },
    async countToken(clientId) {
      await tokens.consume(clientId).catch((err: unknown) => {
        throw err instanceof RateLimiterRes ? tooManyTokens(err) : err;
      });
    },
    async countFailure(clientId, address) {
      const key = failureKey(clientId, address);
      try {
        await failures.consume(key);
      } catch (err) {
        if (!(err instanceof RateLimiterRes)) throw err;
        await refused.block(key, err.msBeforeNext / 1000);
        throw tooMany('Too many failures, please try again later', err.msBeforeNext);
      }
    },
  };
}

const tooManyTokens = (state: RateLimiterRes) =>
  tooMany('Too many requests for this client_id', state.msBeforeNext);

/** A client id may be anything that a stranger sends: its hash has a bounded length. */
const failureKey = (clientId: string, address: string): string =>
  `${createHash('sha256').update(clientId).digest('base64url').slice(0, 22)}:${address}`;
