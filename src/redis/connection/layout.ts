import type { Db } from './db.js';

/**
 * The layout of the keys that this release writes. The first release wrote 1, and stops at a layout two ahead of its own:
 * it would not see what this one has in flight, so there is no 2.
 */
export const layoutVersion = 3;

/** Layouts that this release understands, and goes on from. */
const understood = [1, layoutVersion];

/**
 * Marks a store with this layout, an empty one or one that it understands.
 * @throws with a message for the operator
 */
export async function checkLayout(db: Db): Promise<void> {
  const found = Number((await db.redis.get(db.global.layout)) ?? layoutVersion);
  if (!understood.includes(found)) {
    throw new Error(
      `the store has layout ${found}; this release knows ${understood.join(' and ')}. Use the release that wrote it.`,
    );
  }
  await db.redis.set(db.global.layout, layoutVersion);
}
