import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Returns the result of `work`, or the result of `late` once `timeoutMs` have passed. The work itself continues;
 * its later failure is ignored.
 */
export function withTimeout<T, Late = never>(
  work: Promise<T>,
  timeoutMs: number,
  late: () => Late,
): Promise<T | Late> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(new Promise((given) => given(late()))), timeoutMs);
    work.then(resolve, reject).then(() => clearTimeout(timer));
  });
}

/** Maps every item, at most `concurrency` at a time, in order: bounded, so that a long list does not flood a server. */
export async function mapInPages<T, R>(
  items: readonly T[],
  concurrency: number,
  map: (item: T) => Promise<R>,
): Promise<R[]> {
  const mapped: R[] = [];
  for (let start = 0; start < items.length; start += concurrency) {
    mapped.push(...(await Promise.all(items.slice(start, start + concurrency).map(map))));
  }
  return mapped;
}

/** Rests after a step of long work, begun at a time of `performance`: for two thirds of it Redis and the event loop are others'. */
export const restSince = (begunAt: number, atMostMs = Number.POSITIVE_INFINITY): Promise<void> =>
  sleep(Math.min(atMostMs, 2 * (performance.now() - begunAt)));
