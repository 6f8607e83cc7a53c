import type { Db } from './db.js';

/** The layout of the keys that this release writes. */
export const layoutVersion = 1;

/**
 * Marks an empty store, and refuses one that is two layouts ahead of this release.
 * @throws with a message for the operator
 */
export async function checkLayout(db: Db): Promise<void> {
  await db.redis.setnx(db.global.layout, layoutVersion);
  const found = Number(await db.redis.get(db.global.layout));
  if (found > layoutVersion + 1) {
    throw new Error(
      `the store has layout ${found}; this release knows ${layoutVersion} and its successor. Use a newer release.`,
    );
  }
}
