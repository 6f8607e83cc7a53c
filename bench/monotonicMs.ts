/**
 * Returns milliseconds of the machine's monotonic clock, with fractions. On Linux and macOS all processes share this
 * clock, so times of the publisher and of the receiver can be subtracted.
 */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
