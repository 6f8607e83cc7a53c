/**
 * Limits calls over all processes: an account's expensive calls (`AccountRate`), a client's calls that send something, and failed
 * requests for tokens. Every 429 has Retry-After. Redis counts, and the memory of each process while Redis is unavailable.
 * Failures count for one client id from one address: a caller without the secret cannot use up the customer's calls from another
 * address. pace.ts bounds all calls in each process.
 */
import { hash } from 'node:crypto';
import type { Context } from 'koa';
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import type { Db } from '../../redis/connection/db.js';
import { type Quota, rateLimitFields, tooMany } from '../apiError.js';
import { networkOf } from '../clientAddress.js';

/** The name that callers see in RateLimit-Policy. */
export type AccountRate = keyof typeof refusals;

/** An account may use the calls of this time in one burst, for instance to read page after page. */
const windowSeconds = 10;

const refusals = {
  names: 'Too many calls of this account that look up a host name',
  records: 'Too many calls of this account that read many records',
  secrets: 'Too many calls of this account that show or make a secret',
  console: 'Too many pages of the console for this account',
  links: 'Too many links to the console for this account',
  signIns: 'Too many sign-ins have begun here',
};

/** Each link may become a session, which is kept for 8 h; each beginning of a sign-in asks the identity provider. */
const own: Record<string, Omit<Quota, 'name'>> = {
  links: { calls: 100, windowSeconds: 3600 },
  signIns: { calls: 60, windowSeconds: 60 },
};

/** Returns the function that counts a call towards a rate of its account, and throws ApiError 429 above the rate. */
export function accountLimits(db: Db, callsPerSecond: number) {
  const calls = Math.max(1, Math.floor(callsPerSecond * windowSeconds));
  const counters = Object.keys(refusals).map((name) => {
    const quota = { name, ...(own[name] ?? { calls, windowSeconds }) };
    return [name, sharedWindow(db, `${db.global.accountRate}:${name}`, quota)] as const;
  });
  const counterOf = Object.fromEntries(counters) as Record<AccountRate, ReturnType<typeof sharedWindow>>;
  return async (ctx: Pick<Context, 'set'>, rate: AccountRate, accountId: string): Promise<void> => {
    const { isOver, left, msBeforeNext, quota } = await counterOf[rate](accountId);
    ctx.set(rateLimitFields(quota, left, msBeforeNext));
    if (isOver) throw tooMany(refusals[rate], quota, msBeforeNext);
  };
}

/**
 * Counts by key, in windows that begin with a key's first count: in Redis over all processes; while Redis is unavailable,
 * in the memory of each.
 */
function sharedWindow(db: Db, keyPrefix: string, quota: Quota) {
  const { calls, windowSeconds: duration } = quota;
  // A key over its quota costs Redis nothing more until the window ends.
  const window = { points: calls, duration, inMemoryBlockOnConsumed: calls + 1 };
  const insuranceLimiter = new RateLimiterMemory(window);
  const limiter = new RateLimiterRedis({ storeClient: db.redis, keyPrefix, insuranceLimiter, ...window });
  const count = async (key: string) => {
    try {
      const { remainingPoints: left, msBeforeNext } = await limiter.consume(key);
      return { isOver: false, left, msBeforeNext, quota };
    } catch (err) {
      if (!(err instanceof RateLimiterRes)) throw err;
      return { isOver: true, left: 0, msBeforeNext: err.msBeforeNext, quota };
    }
  };
  return async (key: string) => {
    const counted = await count(key);
    if (counted.msBeforeNext <= duration * 1000) return counted;
    // Redis' clock was set back since: the window would last for as much longer.
    await limiter.delete(key);
    return await count(key);
  };
}

/** Failures for one client id from one address. */
const failures = { name: 'failures', calls: 10, windowSeconds: 60 };

const tooManyFailures = (waitMs: number) => tooMany('Too many failures', failures, waitMs);

/** Limits failed requests for tokens; each member throws ApiError 429. */
export function createFailureLimits(db: Db) {
  const countFailed = sharedWindow(db, db.global.tokenFailures, failures);
  // Addresses that have failed too often, each with the end of its window (ms): a good request needs no look-up. About 1 MB in
  // each process, for any number of ids and addresses that a stranger makes up.
  const refused = new Remembered<number>(10_000);
  return {
    refuseTooMany(clientId: string, address: string): void {
      const untilMs = refused.recall(failureKey(clientId, address));
      if (untilMs !== undefined) throw tooManyFailures(untilMs - performance.now());
    },
    async count(clientId: string, address: string): Promise<void> {
      const key = failureKey(clientId, address);
      const { isOver, msBeforeNext } = await countFailed(key);
      if (!isOver) return;
      const untilMs = performance.now() + msBeforeNext;
      refused.remember(key, untilMs, untilMs);
      throw tooManyFailures(msBeforeNext);
    },
  };
}

/** A stranger may send any client id: its hash has a bounded length. */
const failureKey = (clientId: string, address: string): string =>
  `${hash('sha256', clientId, 'base64url').slice(0, 22)}:${networkOf(address)}`;

/**
 * Remembers values until a time of `performance.now`: the machine's clock may be set back. It never holds more than `atMost`, as
 * strangers can make up any number: beyond that the value that was remembered first is forgotten.
 */
export class Remembered<Value> {
  readonly #entries = new Map<string, { value: Value; untilMs: number }>();

  constructor(readonly atMost: number) {}

  remember(key: string, value: Value, untilMs: number): void {
    this.#entries.delete(key);
    this.#entries.set(key, { value, untilMs });
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined && this.#entries.size > this.atMost) this.#entries.delete(oldest);
  }

  recall(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    if (entry !== undefined && entry.untilMs > performance.now()) return entry.value;
    this.#entries.delete(key);
    return undefined;
  }

  forget(key: string): void {
    this.#entries.delete(key);
  }
}
