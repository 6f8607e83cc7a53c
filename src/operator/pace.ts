/** Returns a function that lets callers go on at most `perSecond` times a second; unused turns are not saved up. */
export function createPace(perSecond: number): () => Promise<void> {
  const everyMs = 1000 / perSecond;
  let nextAt = 0;
  return async () => {
    const now = performance.now();
    const at = Math.max(nextAt, now);
    nextAt = at + everyMs;
    // Timers are no finer than a millisecond: what is nearer goes at once and the next one waits the longer.
    if (at - now >= 2) await new Promise((resolve) => setTimeout(resolve, at - now));
  };
}
