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
