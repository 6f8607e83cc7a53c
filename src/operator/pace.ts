/** Returns a function that lets callers continue at most `perSecond` times a second; unused turns are not saved. */
export function createPace(perSecond: number): () => Promise<void> {
  const everyMs = 1000 / perSecond;
  let nextAt = 0;
  return async () => {
    const now = performance.now();
    const at = Math.max(nextAt, now);
    nextAt = at + everyMs;
    // Timers have a resolution of a millisecond: a shorter wait is skipped and the next one is longer.
    if (at - now >= 2) await new Promise((resolve) => setTimeout(resolve, at - now));
  };
}
