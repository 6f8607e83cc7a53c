/** How much is tried: the short form of CI, or with FUZZ_FORM=long the long one; each number can be set by itself. */
const long = process.env.FUZZ_FORM === 'long';

export const form = {
  /** Made-up calls of each kind for each operation. */
  examples: Number(process.env.FUZZ_EXAMPLES || (long ? 500 : 25)),
  fuzzTimeoutMs: long ? 3_600_000 : 300_000,
};
