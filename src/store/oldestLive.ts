import type { Db } from './db.js';

const page = 500;
/** A backfill of a million assets may be older than the oldest live one: the look for it is bounded. */
const pages = 20;

/** Since when the oldest live notification is owed, ms; undefined where none is (among the oldest 10,000 owed). */
export async function oldestLiveOwedAt(db: Db, clientToken: string): Promise<number | undefined> {
  const keys = db.client(clientToken);
  for (let at = 0; at < page * pages; at += page) {
    const owed = await db.redis.zrangebyscore(
      keys.owedSince,
      '-inf',
      '+inf',
      'WITHSCORES',
      'LIMIT',
      at,
      page,
    );
    if (owed.length === 0) return undefined;
    const assets = owed.filter((_, i) => i % 2 === 0);
    const due = await db.redis.zmscore(keys.dueLive, ...assets);
    const live = due.findIndex((score) => score !== null);
    if (live !== -1) return Number(owed[2 * live + 1]);
  }
  return undefined;
}
