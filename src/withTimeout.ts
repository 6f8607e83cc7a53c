/**
 * Returns what `work` brings, or what `late` returns or throws once `timeoutMs` have passed. The work itself goes on;
 * a failure of it that comes later is ignored.
 */
export function withTimeout<T, Late = never>(
  work: Promise<T>,
  timeoutMs: number,
  late: () => Late,
): Promise<T | Late> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      try {
        resolve(late());
      } catch (err) {
        reject(err);
      }
    }, timeoutMs);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
