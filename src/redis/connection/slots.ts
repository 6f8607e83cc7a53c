/** Finds the slot of a key in a cluster, and hash tags in given slots. */
import { Command } from 'ioredis';

/** From 0 to 16,383. */
export function slotOf(key: string): number {
  return new Command('get', [key]).getSlot() as number;
}

/** The slots are divided into this many ranges. Nodes own long sequences of slots, so hardly any range is on two nodes. */
const ranges = 256;
const rangeOf = (key: string): number => Math.floor((slotOf(key) * ranges) / 16_384);

/** A hash tag in each range: the smallest number, always the same. */
export const rangeTags: string[] = [];
for (let n = 0, missing = ranges; missing > 0; n++) {
  const range = rangeOf(String(n));
  if (rangeTags[range] !== undefined) continue;
  rangeTags[range] = String(n);
  missing--;
}

/** Returns a hash tag in the range of a key. */
export const tagBeside = (key: string): string => rangeTags[rangeOf(key)] as string;
