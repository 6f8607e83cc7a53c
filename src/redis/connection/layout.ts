import type { Redis } from 'ioredis';
import type { Db } from './db.js';

/** The layout of the keys that this release reads and writes. */
export const layoutVersion = 1;

/** Marks an empty store with this layout. @throws with a message for the operator if the store has another one */
export async function checkLayout(db: Db): Promise<void> {
  await db.redis.setnx(db.global.layout, layoutVersion);
  const found = Number(await db.redis.get(db.global.layout));
  if (found === layoutVersion) return;
  throw new Error(
    `the store has layout ${found}; this release knows layout ${layoutVersion}. Use the release that wrote it.`,
  );
}

/**
 * Checks that every server can let single fields of a hash expire, if that is needed.
 * @throws with a message for the operator
 */
export async function checkExpiry(db: Db): Promise<void> {
  if (db.keepSegmentsSeconds === 0) return;
  for (const node of db.nodes.primaries()) {
    if (await expiresFields(node)) continue;
    throw new Error(
      'SEGMENT_RETENTION_DAYS needs HEXPIRE, which this server lacks: use Redis 7.4 or Valkey 9.0, or newer',
    );
  }
}

/** Returns whether this server can let single fields of a hash expire: since Redis 7.4 and Valkey 9.0. */
export async function expiresFields(server: Redis): Promise<boolean> {
  const [known] = (await server.command('INFO', 'HEXPIRE')) as unknown[];
  return Boolean(known);
}
