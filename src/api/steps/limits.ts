/**
 * Limits on calls: an account's expensive ones (those that look up a name, read many records, or show the console), a client's
 * that send something, and how often tokens may be asked for. Every 429 has Retry-After.
 *
 * Counted in Redis over all processes; in memory while Redis is unavailable. Only minted tokens count in the memory of each
 * process, which saves a Redis call for each token: with n processes up to n times the rate. They count per client id, and
 * failures for one client id from one address: a caller without the secret cannot use up the customer's calls from another.
 */
import { hash } from 'node:crypto';
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import type { Db } from '../../redis/connection/db.js';
import { takeSendCall } from '../../redis/records/clients.js';
import { rateLimitFields, tooMany } from '../apiError.js';
import { networkOf } from '../clientAddress.js';
import type { ApiDeps, Step } from '../step.js';
import type { ClientState, TokenState } from './publisher.js';

/** The name that callers see in RateLimit-Policy. */
export type AccountRate = 'names' | 'records' | 'console';

/** An account may use the calls of this time in one burst, for instance to read page after page. */
const windowSeconds = 10;

const refusals: Record<AccountRate, string> = {
  names: 'Too many calls of this account that look up a host name',
  records: 'Too many calls of this account that read many records',
  console: 'Too many pages and links of the console for this account',
};

/** Counts a call of the token's account. @throws ApiError 429 */
export function limitAccount({ db, config }: ApiDeps, rate: AccountRate): Step<TokenState> {
  const calls = Math.max(1, Math.floor(config.ACCOUNT_RATE_PER_SECOND * windowSeconds));
  const quota = { name: rate, calls, windowSeconds };
  const count = sharedWindow(db, `${db.global.accountRate}:${rate}`, {
    points: calls,
    duration: windowSeconds,
    // An account over its rate costs Redis nothing more until the window ends.
    inMemoryBlockOnConsumed: calls + 1,
  });
  return async (ctx, next) => {
    const counted = await count(ctx.state.token.accountId);
    ctx.set(rateLimitFields(quota, counted.left, counted.msBeforeNext));
    if (counted.isOver) throw tooMany(refusals[rate], quota, counted.msBeforeNext);
    await next();
  };
}

/** One in 5 s, bursts of 5. */
const quota = { name: 'sends', calls: 5, windowSeconds: 25 };

/**
 * Limits a client's calls that send something: one in 5 s, bursts of 5.
 * @param sends how many this call counts as, 1 or 5
 */
export function limitSends(db: Db, sends?: 1 | 5): Step<ClientState> {
  return async (ctx, next) => {
    const waitMs = await takeSendCall(db, ctx.state.client.clientToken, sends);
    if (waitMs > 0) throw tooMany('Too many calls that send something for this client', quota, waitMs);
    await next();
  };
}

/**
 * Counts by key, in windows that begin with a key's first count: in Redis over all processes; while Redis is unavailable,
 * in the memory of each.
 * @param window `points` counts in `duration` seconds
 */
function sharedWindow(
  db: Db,
  keyPrefix: string,
  window: { points: number; duration: number; inMemoryBlockOnConsumed?: number },
) {
  const insuranceLimiter = new RateLimiterMemory(window);
  const limiter = new RateLimiterRedis({ storeClient: db.redis, keyPrefix, insuranceLimiter, ...window });
  return async (key: string) => {
    try {
      const { remainingPoints, msBeforeNext } = await limiter.consume(key);
      return { isOver: false, left: remainingPoints, msBeforeNext };
    } catch (err) {
      if (!(err instanceof RateLimiterRes)) throw err;
      return { isOver: true, left: 0, msBeforeNext: err.msBeforeNext };
    }
  };
}

/** Failures for one client id from one address. */
const failures = { name: 'failures', calls: 10, windowSeconds: 60 };
/** About 1 MB in each process, for any number of ids and addresses that a stranger makes up. */
const refusedAtMost = 10_000;

const tooManyFailures = (waitMs: number) => tooMany('Too many failures', failures, waitMs);

export type TokenLimits = ReturnType<typeof createTokenLimits>;

/** Limits how often tokens may be asked for; each member throws ApiError 429. */
export function createTokenLimits(db: Db, tokensPerSecond: number) {
  const quota = { name: 'tokens', calls: tokensPerSecond, windowSeconds: 1 };
  const tooManyTokens = (waitMs: number) => tooMany('Too many requests for this client_id', quota, waitMs);
  const tokens = new SecondWindow(tokensPerSecond);
  const countFailed = sharedWindow(db, db.global.tokenFailures, {
    points: failures.calls,
    duration: failures.windowSeconds,
  });
  // Addresses that have failed too often are remembered here, so that a good request needs no look-up.
  const refused = new RememberedUntil(refusedAtMost);

  return {
    refuseTooMany(clientId: string, address: string): void {
      const now = Date.now();
      if (refused.size > 0) {
        const refusedForMs = refused.leftMs(failureKey(clientId, address), now);
        if (refusedForMs > 0) throw tooManyFailures(refusedForMs);
      }
      const fullForMs = tokens.fullForMs(clientId, now);
      if (fullForMs > 0) throw tooManyTokens(fullForMs);
    },
    /** Counts a token that was minted and not yet given out: concurrent calls may have used up the rate. */
    countToken(clientId: string): void {
      const now = Date.now();
      if (!tokens.count(clientId, now)) throw tooManyTokens(tokens.fullForMs(clientId, now));
    },
    async countFailure(clientId: string, address: string): Promise<void> {
      const key = failureKey(clientId, address);
      const { isOver, msBeforeNext } = await countFailed(key);
      if (!isOver) return;
      refused.remember(key, Date.now() + msBeforeNext);
      throw tooManyFailures(msBeforeNext);
    },
  };
}

/** A stranger may send any client id: its hash has a bounded length. */
const failureKey = (clientId: string, address: string): string =>
  `${hash('sha256', clientId, 'base64url').slice(0, 22)}:${networkOf(address)}`;

/**
 * Counts by key, in windows of one second that begin with a key's first count. The keys are known (accounts),
 * so none is ever removed. It needs no promise or timer for each count, unlike rate-limiter-flexible.
 */
class SecondWindow {
  readonly #counts = new Map<string, { endsAtMs: number; count: number }>();

  constructor(readonly atMost: number) {}

  /** Returns how long until another count is allowed, ms; 0 if it is now. */
  fullForMs(key: string, nowMs: number): number {
    const window = this.#counts.get(key);
    return window !== undefined && window.count >= this.atMost ? Math.max(0, window.endsAtMs - nowMs) : 0;
  }

  /** Counts one. Returns false if the limit was reached. */
  count(key: string, nowMs: number): boolean {
    let window = this.#counts.get(key);
    if (window === undefined || window.endsAtMs <= nowMs) {
      window = { endsAtMs: nowMs + 1000, count: 0 };
      this.#counts.set(key, window);
    }
    if (window.count >= this.atMost) return false;
    window.count++;
    return true;
  }
}

/**
 * Remembers keys until a time. It never holds more than `atMost`, as strangers can make up any number: beyond that the
 * key that was remembered first is forgotten.
 */
export class RememberedUntil {
  readonly #untilMs = new Map<string, number>();

  constructor(readonly atMost: number) {}

  get size(): number {
    return this.#untilMs.size;
  }

  remember(key: string, untilMs: number): void {
    this.#untilMs.delete(key);
    this.#untilMs.set(key, untilMs);
    for (const oldest of this.#untilMs.keys()) {
      if (this.#untilMs.size <= this.atMost) break;
      this.#untilMs.delete(oldest);
    }
  }

  /** Returns how long the key is still remembered, ms; 0 if it is not. */
  leftMs(key: string, nowMs: number): number {
    const untilMs = this.#untilMs.get(key);
    if (untilMs === undefined) return 0;
    if (untilMs <= nowMs) this.#untilMs.delete(key);
    return Math.max(0, untilMs - nowMs);
  }
}
