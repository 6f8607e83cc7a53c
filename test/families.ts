/**
 * Large families of generated tests: by default each n-th member is tried, always the same ones; with FAMILIES=whole, as the nightly run
 * has it, every member.
 */
const isWhole = process.env.FAMILIES === 'whole';

/** Returns the members that are tried. */
export function tried<T>(family: readonly T[], nth: number): T[] {
  return family.filter((_, i) => isWhole || i % nth === 0);
}

/** Returns an `it` that declares each n-th of the tests that it is given. */
export function itOfFamily(nth: number): (title: string, run: () => Promise<void>) => void {
  let given = 0;
  return (title, run) => {
    if (isWhole || given % nth === 0) it(title, run);
    given++;
  };
}
