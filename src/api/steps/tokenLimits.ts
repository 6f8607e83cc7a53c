/**
 * Limits how often tokens may be asked for.
 *
 * Only minted tokens count per client id, and failures count for one client id from one address: a caller without
 * the secret cannot use up the customer's calls from another address. Tokens are counted in the memory of
 * each process (saving a Redis call for each token; with n processes up to n times the rate), failures in Redis, so
 * that they add up over all processes; in memory while Redis is unavailable.
 */
import { hash } from 'node:crypto';
import type { Db } from '../../redis/connection/db.js';
import { tooMany } from '../apiError.js';
import { networkOf } from '../clientAddress.js';
import { sharedWindow } from './sharedWindow.js';

export interface TokenLimits {
  /** @throws ApiError 429 */
  refuseTooMany(clientId: string, address: () => string): void;
  /** Counts a token that was minted and not yet given out. @throws ApiError 429 if concurrent calls used up the rate */
  countToken(clientId: string): void;
  /** @throws ApiError 429 if this failure is over the limit */
  countFailure(clientId: string, address: string): Promise<void>;
}

/** Failures for one client id from one address. */
const failuresAllowed = 10;
const failuresWindowSeconds = 60;
/** About 1 MB in each process, for any number of ids and addresses that a stranger makes up. */
const refusedAtMost = 10_000;

const tooManyFailures = (waitMs: number) =>
  tooMany(
    'Too many failures',
    { name: 'failures', calls: failuresAllowed, windowSeconds: failuresWindowSeconds },
    waitMs,
  );

export function createTokenLimits(db: Db, tokensPerSecond: number): TokenLimits {
  const quota = { name: 'tokens', calls: tokensPerSecond, windowSeconds: 1 };
  const tooManyTokens = (waitMs: number) => tooMany('Too many requests for this client_id', quota, waitMs);
  const tokens = new SecondWindow(tokensPerSecond);
  const countFailed = sharedWindow(db, db.global.tokenFailures, {
    points: failuresAllowed,
    duration: failuresWindowSeconds,
  });
  // Addresses that have failed too often are remembered here, so that a good request needs no look-up.
  const refused = new RememberedUntil(refusedAtMost);

  return {
    refuseTooMany(clientId, address) {
      const now = Date.now();
      if (refused.size > 0) {
        const refusedForMs = refused.leftMs(failureKey(clientId, address()), now);
        if (refusedForMs > 0) throw tooManyFailures(refusedForMs);
      }
      const fullForMs = tokens.fullForMs(clientId, now);
      if (fullForMs > 0) throw tooManyTokens(fullForMs);
    },
    countToken(clientId) {
      const now = Date.now();
      if (!tokens.count(clientId, now)) throw tooManyTokens(tokens.fullForMs(clientId, now));
    },
    async countFailure(clientId, address) {
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
