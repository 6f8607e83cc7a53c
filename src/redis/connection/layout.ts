import type { Redis } from 'ioredis';
import type { Db } from './db.js';

/**
 * The layout of the keys that this release writes. The first release wrote 1, and stops at a layout two ahead of its own.
 * It must stop, because it would not see this release's attempts in flight; so there is no layout 2.
 */
export const layoutVersion = 3;

/** Layouts that this release understands and continues. */
const understood = [1, layoutVersion];

/**
 * Marks a store with this layout, if it is empty or has a layout that this release understands.
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
