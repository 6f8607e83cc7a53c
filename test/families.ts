/**
 * Returns the members of a family of generated tests that are tried: by default each n-th of those that cost much, always the same
 * ones; with FAMILIES=whole, as the nightly run has it, every member.
 */
export function tried<T>(family: readonly T[], nth: number): T[] {
  return family.filter((_, i) => i % nth === 0 || process.env.FAMILIES === 'whole');
}
