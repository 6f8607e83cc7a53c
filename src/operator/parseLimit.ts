import { InvalidArgumentError } from 'commander';

/** Returns a reader of an option's whole number, from 1 to `most`. */
export function parseLimit(most: number): (text: string) => number {
  return (text) => {
    const limit = Number(text);
    if (!Number.isSafeInteger(limit) || limit < 1 || limit > most) {
      throw new InvalidArgumentError(`Give a whole number from 1 to ${most}.`);
    }
    return limit;
  };
}
