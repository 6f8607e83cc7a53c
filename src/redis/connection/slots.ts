/** Finds the slot of a key in a cluster, and hash tags in given slots. */
import { Command } from 'ioredis';

/** From 0 to 16,383. */
export function slotOf(key: string): number {
  return new Command('get', [key]).getSlot() as number;
}

/** The slots are divided into this many ranges. Nodes own long sequences of slots, so hardly any range is on two nodes. */
const ranges = 256;
const slotsOfRange = 16_384 / ranges;

let tags: readonly string[] | undefined;

/** Returns a hash tag with a slot in the same range: the same tag for every slot of a range. */
export function tagBeside(slot: number): string {
  return rangeTags()[Math.floor(slot / slotsOfRange)] as string;
}

/** Returns the hash tag of every range. */
export function rangeTags(): readonly string[] {
  tags ??= findTags();
  return tags;
}

/** Finds the smallest number with a slot in each range: always the same numbers. */
function findTags(): string[] {
  const found: string[] = [];
  let missing = ranges;
  for (let n = 0; missing > 0; n++) {
    const range = Math.floor(slotOf(String(n)) / slotsOfRange);
    if (found[range] !== undefined) continue;
    found[range] = String(n);
    missing--;
  }
  return found;
}
