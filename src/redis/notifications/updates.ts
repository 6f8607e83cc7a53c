/**
 * Reads the feed of a client's updates from two keys, so that an event that makes a notification adds no write:
 *
 * - the list of notifications, by their time of acceptance. Each read stores the latest time that it has seen.
 * - a stream of the updates that readers would not find there: events of a client without a URL, and events that are claimed
 *   so late, or by a process whose clock is so slow, that the list has them before the latest time seen. Redis gives the
 *   entries of the stream ids that only rise.
 *
 * A place has a part in each of the two. Scripts decide to which key an update is added, so none is skipped.
 */
import { type Db, nowOf } from '../connection/db.js';
import { recordKeptMs } from '../connection/keys.js';
import { runScript } from '../connection/library.js';
import type { Place } from './notificationPages.js';

/** An asset had new segments. */
export interface Update {
  platformId: string;
  notificationId: string;
  /** When the event was accepted, ms. */
  updatedAt: number;
}

export interface UpdatePlace {
  /** The last notification read in the list; `member` '' at its beginning. */
  listed: Place;
  /** The last entry read in the stream; `0-0` at its beginning. */
  entry: string;
  /** When the page was answered, ms. */
  readAt: number;
}

/** The most entries of the list, and of the stream. */
export const keptUpdates = 10_000;
/** Entries that one run of the script reads, in less than a millisecond. */
const entriesPerScript = 200;

/**
 * Returns the next updates after a place, oldest first, each asset once, with its newest update among these. Without a place
 * it begins with the oldest kept one. The page is empty if nothing is new.
 * @returns undefined if updates after the place may be gone: it is no longer kept, was not used for 14 days, or Redis has
 * lost it
 */
export async function readUpdates(
  db: Db,
  clientToken: string,
  { after, limit }: { after?: UpdatePlace; limit: number },
): Promise<{ updates: Update[]; end: UpdatePlace; hasMore: boolean } | undefined> {
  const readAt = nowOf(db);
  const begin = after ?? { listed: { score: 0, member: '' }, entry: '0-0', readAt };
  const streamed = await readStream(db, clientToken, begin.entry, limit);
  let listed = await readList(db, clientToken, begin.listed);
  if (after !== undefined && !(streamed.isThere && listed.isThere)) return undefined;
  if (listed.gone > 0 && readAt - begin.readAt > recordKeptMs) return undefined;
  // Entries whose records are gone may fill a whole page.
  while (listed.found.length === 0 && listed.hasMore) listed = await readList(db, clientToken, listed.end);
  const merged = [...listed.found, ...streamed.found].sort((a, b) => a.updatedAt - b.updatedAt);
  const taken = merged.slice(0, limit);
  const left = merged.slice(limit);
  const end = {
    listed: left.some(({ place }) => place)
      ? (taken.findLast(({ place }) => place)?.place ?? begin.listed)
      : listed.end,
    entry: taken.findLast(({ entry }) => entry)?.entry ?? begin.entry,
    readAt,
  };
  const newest = new Map<string, Update>();
  for (const update of taken) {
    // Moves the asset after those that came in between.
    newest.delete(update.platformId);
    newest.set(update.platformId, update);
  }
  return {
    updates: [...newest.values()],
    end,
    hasMore: left.length > 0 || streamed.hasMore || listed.hasMore,
  };
}

interface Part {
  /** Each with its place in the list, or its entry of the stream. */
  found: (Update & { place?: Place; entry?: string })[];
  /** No update after the place was cut off. */
  isThere: boolean;
  hasMore: boolean;
}

/** `gone`: number of entries whose record is gone. */
async function readList(
  db: Db,
  clientToken: string,
  { score, member }: Place,
): Promise<Part & { gone: number; end: Place }> {
  const answer = await runScript(db, 'updatesPage', clientToken, [score, member, entriesPerScript]);
  const [isThere, isFull, last, lastScore, gone, updates] = answer as [
    ...[isThere: number, isFull: number, last: string, lastScore: string, gone: number],
    updates: [id: string, score: string, asset: string][],
  ];
  const found = updates.map(([notificationId, at, platformId]) => {
    const updatedAt = Number(at);
    return { platformId, notificationId, updatedAt, place: { score: updatedAt, member: notificationId } };
  });
  const end = { score: Number(lastScore), member: last };
  return { found, isThere: isThere === 1, hasMore: isFull === 1, gone, end };
}

async function readStream(db: Db, clientToken: string, after: string, limit: number): Promise<Part> {
  const { updates } = db.client(clientToken);
  const isStart = after === '0-0';
  const entries = await db.redis.xrange(updates, after, '+', 'COUNT', limit + 1);
  // The script keeps one entry more, so that the entry of a place exists while 10,000 follow it.
  const isThere = isStart ? (await db.redis.xlen(updates)) <= keptUpdates : entries.shift()?.[0] === after;
  const found = entries.slice(0, limit).map(([entry, fields]) => ({
    entry,
    notificationId: fields[1] ?? '',
    platformId: fields[3] ?? '',
    updatedAt: Number(entry.split('-')[0]) + db.clockOffsetMs(),
  }));
  return { found, isThere, hasMore: entries.length > limit };
}
