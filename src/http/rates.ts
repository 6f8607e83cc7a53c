/** Rates by key: in the memory of this process, or over all processes. */
import { except } from '../promises.js';
import type { Db } from '../redis/connection/db.js';
import { evaluate } from '../redis/connection/library.js';
import { ignore, isRedisUnavailable } from '../redis/connection/unavailable.js';

/** So many calls at once, and as many again, evenly, in each window. */
export interface Rate {
  calls: number;
  windowSeconds: number;
}

export interface Counted {
  /** In how many ms the call may be made; 0: it was counted. */
  waitMs: number;
  /** In how many ms all calls are left again. */
  fullInMs: number;
}

/**
 * Counts a call of all processes towards a rate, unless the rate does not allow the call now.
 * @param isOwed counts it all the same: later calls wait for it @throws errors of Redis
 */
export async function countCall(
  db: Db,
  key: string,
  { calls, windowSeconds }: Rate,
  isOwed = false,
): Promise<Counted> {
  const args = [(windowSeconds * 1000) / calls, calls, isOwed ? 1 : 0];
  const [waitMs, fullInMs] = await evaluate<[number, number]>(db, 'countCall', [key], args);
  return { waitMs, fullInMs };
}

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

/** A rate in the memory of this process. About 1 MB holds the keys in use, of which strangers make up any number. */
export class OwnRate {
  /** By key, when all calls are left again, ms. */
  readonly #fullAt = new Remembered<number>(10_000);
  readonly #everyMs: number;
  readonly #windowMs: number;

  constructor({ calls, windowSeconds }: Rate) {
    this.#windowMs = windowSeconds * 1000;
    this.#everyMs = this.#windowMs / calls;
  }

  /** Counts a call, unless it must wait for longer. @param weight the calls that it counts as */
  count(key: string, weight = 1, longestWaitMs = 0): Counted {
    const nowMs = performance.now();
    const fullAt = Math.max(nowMs, this.#fullAt.recall(key) ?? 0) + this.#everyMs * weight;
    const waitMs = Math.max(0, fullAt - nowMs - this.#windowMs);
    if (waitMs <= longestWaitMs) this.#fullAt.remember(key, fullAt, fullAt);
    return { waitMs, fullInMs: fullAt - nowMs };
  }

  giveBack(key: string): void {
    const fullAt = this.#fullAt.recall(key);
    if (fullAt !== undefined) this.#fullAt.remember(key, fullAt - this.#everyMs, fullAt - this.#everyMs);
  }
}

/**
 * A rate over all processes: in Redis; while Redis is unavailable, in the memory of each. A key that has reached its rate costs Redis
 * nothing more until the next call is allowed.
 */
export function sharedRate(db: Db, keyPrefix: string, rate: Rate) {
  const own = new OwnRate(rate);
  const allowedAt = new Remembered<number>(10_000);
  /** Returns in how many ms a call that was refused is allowed; 0: perhaps now. */
  const refusedFor = (key: string): number => Math.max(0, (allowedAt.recall(key) ?? 0) - performance.now());
  return {
    refusedFor,
    /** @throws errors of Redis, unless it is unavailable */
    async count(key: string): Promise<Counted> {
      const stillMs = refusedFor(key);
      if (stillMs > 0) return { waitMs: stillMs, fullInMs: stillMs };
      const counting = countCall(db, `${keyPrefix}:${key}`, rate);
      const counted = await counting.catch(except(isRedisUnavailable, () => own.count(key)));
      const untilMs = performance.now() + counted.waitMs;
      if (counted.waitMs > 0) allowedAt.remember(key, untilMs, untilMs);
      return counted;
    },
    /** Counts a call that is made already, unless Redis does not answer: later calls wait for it. */
    countMade: (key: string) => countCall(db, `${keyPrefix}:${key}`, rate, true).catch(ignore),
  };
}
