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

/** Returns what `catch` does: an error that is meant becomes the answer, undefined by default, and every other is thrown on. */
export const except =
  <T = undefined>(isMeant: (err: unknown) => boolean, answer?: () => T) =>
  (err: unknown): T => {
    if (!isMeant(err)) throw err;
    return answer?.() as T;
  };

/** Maps every item, at most `concurrency` at a time, in order: bounded, so that a long list does not flood a server. @param rest is awaited between */
export async function mapInPages<T, R>(
  items: readonly T[],
  concurrency: number,
  map: (item: T) => Promise<R>,
  rest?: () => Promise<void>,
): Promise<R[]> {
  const mapped: R[] = [];
  for (let start = 0; start < items.length; start += concurrency) {
    if (start > 0) await rest?.();
    mapped.push(...(await Promise.all(items.slice(start, start + concurrency).map(map))));
  }
  return mapped;
}

/** Work of this length (ms) delays nobody noticeably. */
const shortMs = 10;

/** Returns what a long work awaits after each step: for two thirds of its time Redis and the event loop are others'. */
export function restsBetweenSteps(): () => Promise<void> {
  let begunAt = performance.now();
  return async () => {
    const workedMs = performance.now() - begunAt;
    if (workedMs < shortMs) return;
    await sleep(2 * workedMs);
    begunAt = performance.now();
  };
}
