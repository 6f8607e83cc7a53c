/** gRPC codes that say nothing against a call: cancelled, deadline, exhausted, aborted, internal, unavailable. */
const unavailableCodes = new Set([1, 2, 4, 8, 10, 13, 14]);

/** Whether a call failed because Temporal is away or busy: it may be made again. */
export function isTemporalUnavailable(err: unknown): boolean {
  for (let e = err; e instanceof Error; e = e.cause) {
    const { code } = e as Error & { code?: unknown };
    if (typeof code === 'number') return unavailableCodes.has(code);
  }
  return false;
}
