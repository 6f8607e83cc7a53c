/** Reads the feed of a client's updates: a stream, whose entries Redis gives ids that only rise (`add_update` in updates.lua). */
import type { Db } from '../connection/db.js';

/** The newest updates of a client that are kept. */
export const keptUpdates = 100_000;
/** The position before every entry. */
const feedBeginning = '0-0';

/**
 * Returns the next updates after a position (the id of an entry), oldest first, each asset once, with its newest update among these. Without
 * a position it begins with the oldest kept one. The page is empty if nothing is new. `updatedAt`: when the event was claimed, ms.
 * @returns undefined if updates after the position may be gone: 100,000 have followed, or Redis has lost the position
 */
export async function readUpdates(
  db: Db,
  clientToken: string,
  { after, limit }: { after?: string; limit: number },
) {
  const { updates: key } = db.client(clientToken);
  const begin = after ?? feedBeginning;
  const entries = await db.redis.xrange(key, begin, '+', 'COUNT', limit + 2);
  // The script keeps one entry more, so that the entry of a position exists while 100,000 follow it.
  if (begin !== feedBeginning && entries.shift()?.[0] !== begin) return undefined;
  if (after === feedBeginning && (await db.redis.xlen(key)) > keptUpdates) return undefined;
  const page = entries.slice(0, limit);
  const newest = new Map<string, { platformId: string; notificationId: string; updatedAt: number }>();
  for (const [entry, [, notificationId = '', , platformId = '']] of page) {
    const updatedAt = Number(entry.split('-')[0]) + db.clockOffsetMs();
    // Moves the asset after those that came in between.
    newest.delete(platformId);
    newest.set(platformId, { platformId, notificationId, updatedAt });
  }
  return { updates: [...newest.values()], end: page.at(-1)?.[0] ?? begin, hasMore: entries.length > limit };
}
