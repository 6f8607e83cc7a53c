/** What attempts have taught this process about an origin, for those that follow. */
import type { LookupAddress } from 'node:dns';

/** How long a lesson lasts: an address's since it failed, an origin's since its last connection. */
const keptMs = 3_600_000;
const maxOrigins = 10_000;
/** Of an origin: a name may have others with each answer. */
const maxAddresses = 64;

export interface Lesson {
  /**
   * The first message of TLS that the origin is known to take. `short`: one that was longer than a packet got no answer, as with a box
   * that reads only the first (golang/go#80573): Node 24's has 1.6 kB, most of it a post-quantum key share.
   */
  hello?: 'short' | 'long';
  /** When (`performance.now()`) an attempt failed at each address that had accepted its connection; the newest failure last. */
  readonly failedAtMs: Map<string, number>;
}

/** The lessons of origins without a connection. */
export class Lessons {
  readonly #kept = new Map<string, { lesson: Lesson; untilMs: number }>();

  /** Returns the lesson of an origin that gets its first connection; it is given back with `keep`. */
  take(origin: string): Lesson {
    const kept = this.#kept.get(origin);
    this.#kept.delete(origin);
    return kept !== undefined && performance.now() < kept.untilMs ? kept.lesson : { failedAtMs: new Map() };
  }

  keep(origin: string, lesson: Lesson): void {
    if (lesson.hello !== 'short' && lesson.failedAtMs.size === 0) return;
    keepNewest(this.#kept.set(origin, { lesson, untilMs: performance.now() + keptMs }), maxOrigins);
  }
}

/** Removes the oldest of a collection, which has got one more, if it is too many. */
export function keepNewest(kept: Map<string, unknown> | Set<string>, most: number): void {
  const [oldest] = kept.keys();
  if (kept.size > most && oldest !== undefined) kept.delete(oldest);
}

/** Notes the end of an attempt at an address: after a failure later connections begin with another. */
export function judgeAddressOf({ failedAtMs }: Lesson, address: string, isFailure: boolean): void {
  failedAtMs.delete(address);
  if (isFailure) keepNewest(failedAtMs.set(address, performance.now()), maxAddresses);
}

/** Returns the addresses in their order, after them those that failed, the oldest failure first. */
export function inOrder<T extends LookupAddress>({ failedAtMs }: Lesson, addresses: readonly T[]): T[] {
  const sinceMs = performance.now() - keptMs;
  const failure = ({ address }: T) => Math.max(failedAtMs.get(address) ?? sinceMs, sinceMs);
  return [...addresses].sort((a, b) => failure(a) - failure(b));
}
