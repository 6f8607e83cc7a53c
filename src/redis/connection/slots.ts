/** The slots of a cluster: which one a key is in, and names that lie in given ones. */
import { Command } from 'ioredis';

/** From 0 to 16,383. */
export function slotOf(key: string): number {
  return new Command('get', [key]).getSlot() as number;
}

/** Ranges into which the slots are cut. Nodes own long runs of slots: hardly any range is on two nodes. */
const ranges = 256;
const slotsOfRange = 16_384 / ranges;

let tags: readonly string[] | undefined;

/** Returns a hash tag whose slot lies beside this one, in the same range: the same one for every slot of a range. */
export function tagBeside(slot: number): string {
  return rangeTags()[Math.floor(slot / slotsOfRange)] as string;
}

/** Returns the hash tag of every range. */
export function rangeTags(): readonly string[] {
  tags ??= findTags();
  return tags;
}

/** The smallest number whose slot is in the range, for each: always the same ones. */
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
