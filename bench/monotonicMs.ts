/**
 * Milliseconds of the machine's monotonic clock, with fractions. Linux and macOS give every process the same
 * one, so that a time taken by the publisher and one taken by the receiver can be subtracted.
 */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
