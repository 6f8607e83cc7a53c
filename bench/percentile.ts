/** Returns the value below which the share `p` (0 to 1) of `sorted` (ascending) lies: nearest rank; NaN if it is empty. */
export function percentile(sorted: ArrayLike<number>, p: number): number {
  if (sorted.length === 0) return Number.NaN;
  return sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)] ?? Number.NaN;
}

interface Spread {
  min: number;
  median: number;
  max: number;
}

/** Summarizes one figure over several rounds. */
export function spread(values: readonly number[]): Spread {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  const lower = percentile(sorted, 0.5);
  const upper = sorted[Math.floor(sorted.length / 2)] ?? lower;
  return { min: percentile(sorted, 0), median: (lower + upper) / 2, max: percentile(sorted, 1) };
}
