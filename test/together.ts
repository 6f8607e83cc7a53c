import { begun } from './receiver.js';

/**
 * Declares tests that wait rather than work: they begin with their suite, at most so many at a time, and each fails by itself.
 * What they open must stay open until the suite ends.
 */
export function useTogether(atOnce = Number.POSITIVE_INFINITY) {
  const tests: (() => Promise<unknown>)[] = [];
  const results: Promise<unknown>[] = [];
  before(() => {
    for (const [i, test] of tests.entries()) {
      results.push(begun(Promise.allSettled([results[i - atOnce]]).then(test)));
    }
  });
  return (title: string, test: () => Promise<unknown>): Mocha.Test => {
    const i = tests.push(test) - 1;
    return it(title, () => results[i]);
  };
}
