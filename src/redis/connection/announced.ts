import type { Redis } from 'ioredis';

/**
 * Remembers the names that this process has written over its present connection, so that it does not write them again: the
 * oldest first, and only as long as they count. After a reconnect the server may have lost its last second: every name is
 * due again.
 */
export class Announced {
  readonly #by = new WeakMap<Redis, Map<string, number>>();

  constructor(readonly countsForMs: number) {}

  /** Tells whether a name must be written (again). @param at now, ms */
  isDue(redis: Redis, name: string, at: number): boolean {
    return at - (this.#of(redis).get(name) ?? Number.NEGATIVE_INFINITY) > this.countsForMs;
  }

  note(redis: Redis, names: Iterable<string>, at: number): void {
    const known = this.#of(redis);
    for (const name of names) {
      known.delete(name);
      known.set(name, at);
    }
    for (const [name, since] of known) {
      if (at - since <= this.countsForMs) break;
      known.delete(name);
    }
  }

  forget(redis: Redis, name: string): void {
    this.#of(redis).delete(name);
  }

  #of(redis: Redis): Map<string, number> {
    let names = this.#by.get(redis);
    if (names === undefined) {
      names = new Map();
      this.#by.set(redis, names);
      redis.once('close', () => this.#by.delete(redis));
    }
    return names;
  }
}
