import type { ParserCase } from './parserCases.js';

/** The least time that the parser took, of several tries, ms. */
export async function parserTimeMs({ prepare }: ParserCase, bytes: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let tried = 0; tried < 7; tried++) {
    const parse = prepare(bytes);
    const begun = performance.now();
    try {
      await parse();
    } catch {
      // Refused is as good as read.
    }
    least = Math.min(least, performance.now() - begun);
  }
  return least;
}
