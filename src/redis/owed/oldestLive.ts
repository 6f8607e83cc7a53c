import type { Db } from '../connection/db.js';
import { pageBehind, startOf } from '../notifications/place.js';

const count = 500;
/** Bounds the search: a million backfill assets may be older than the oldest live one. */
const pages = 20;

/** Returns since when the oldest waiting live notification is owed, ms; undefined if the oldest 10,000 have none. */
export async function oldestLiveOwedAt(db: Db, clientToken: string): Promise<number | undefined> {
  const direction = 'rising';
  let place = startOf(direction);
  for (let looked = 0; looked < pages; looked++) {
    const owed = await pageBehind(db, clientToken, 'owed-since', { place, direction, count });
    const last = owed.at(-1);
    if (last === undefined) return undefined;
    const due = await db.redis.zmscore(db.client(clientToken).dueLive, ...owed.map(({ member }) => member));
    const live = owed.find((_, i) => due[i] !== null);
    if (live !== undefined) return live.score;
    place = last;
  }
  return undefined;
}
