/** gRPC codes after which a call may be repeated: cancelled, unknown, deadline, exhausted, aborted, internal, unavailable. */
const unavailableCodes = new Set([1, 2, 4, 8, 10, 13, 14]);

const resourceExhausted = 8;

/** Returns whether a call failed because Temporal is unavailable or busy. */
export function isTemporalUnavailable(err: unknown): boolean {
  const code = grpcCodeOf(err);
  return code !== undefined && unavailableCodes.has(code);
}

/** Returns whether Temporal refused a call because a limit on calls or actions is reached. */
export function isOverLimit(err: unknown): boolean {
  return grpcCodeOf(err) === resourceExhausted;
}

/** Returns the gRPC code of an error or of its cause. */
function grpcCodeOf(err: unknown): number | undefined {
  for (let e = err; e instanceof Error; e = e.cause) {
    const { code } = e as Error & { code?: unknown };
    if (typeof code === 'number') return code;
  }
  return undefined;
}
