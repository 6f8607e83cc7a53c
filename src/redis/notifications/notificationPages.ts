/** Lists of one client's notifications, page by page, while notifications come and end. */
import { shared } from '../../constants.js';
import { restsBetweenSteps } from '../../promises.js';
import { type Db, nowOf } from '../connection/db.js';
import { askScript } from '../connection/library.js';
import { ignore } from '../connection/unavailable.js';
import type { NotificationState } from '../owed/standing.js';
import { getNotification, type ListedNotification, readRecords } from './notifications.js';

/** A position in a sorted set, by value: a page begins after it, not at a rank, because members come and go meanwhile. */
export interface Position {
  score: number;
  /** It need not exist; '' comes before every member of that score. */
  member: string;
}

/** The position before every member, by falling score. */
const beginning: Position = { score: Number.MAX_SAFE_INTEGER, member: '' };

export interface NotificationFilter {
  state?: NotificationState;
  platformId?: string;
  /** Accepted between these times, ms. */
  since?: number;
  until?: number;
  behind?: Position;
  limit: number;
}

/** A filter of a whole list. */
type Match = Omit<NotificationFilter, 'limit'> & { eventId?: string };

/** Told of each piece of a list that was read, whether anything matched or not. */
export type OnPiece = () => void;

/**
 * The order of a list, the latest first: waiting notifications by the time since which their asset is owed, which a newer
 * event does not change; failed ones by the time of the failure; all others by the time of acceptance. A position belongs to one order.
 */
export type NotificationOrder = 'accepted' | 'owed_since' | 'failed_at';

export function orderOf({ state, platformId }: Match): NotificationOrder {
  if (state === 'failed') return 'failed_at';
  return state === 'waiting' && platformId === undefined ? 'owed_since' : 'accepted';
}

/** `position`: in the order of acceptance, that time (ms) and the notification; in the other orders their time (ms) and the asset. */
export interface Entry {
  position: Position;
  notificationId: string;
  acceptedAt: number;
}

/** `end`: where to continue; absent if nothing follows. */
type Entries = { entries: Entry[]; end?: Position };

/** Entries read in one step, in less than a millisecond. */
const entriesPerStep = 200;
/** Bounds the work of one call if a filter matches little: 10,000 entries; the position then continues the list. */
const piecesAtMost = 50;

/**
 * Returns since when a list is complete, ms: failed ones are kept for their time, those that ended otherwise for 14 days, and the newest
 * 10,000 of them; undefined: all that are owed are listed.
 */
export async function completeSince(db: Db, clientToken: string, order: NotificationOrder) {
  const kept = keptSince(db, order);
  if (order !== 'accepted' || kept === undefined) return kept;
  // What was removed is older than so many. Before these may be some that a replay has listed again, and some that have made room for others
  // since.
  const last = shared.listedAtMost - 1;
  const [, from] = await db.redis.zrevrange(db.client(clientToken).notifications, last, last, 'WITHSCORES');
  return Math.max(Number(from ?? 0), kept);
}

export function keptSince(db: Db, order: NotificationOrder): number | undefined {
  if (order === 'owed_since') return undefined;
  return nowOf(db) - (order === 'failed_at' ? db.settings.keepFailedMs : shared.recordKeptDays * 86_400_000);
}

/**
 * Lists all waiting and failed notifications, and the newest 10,000 others. A page may be shorter than `limit`, even empty, while there is
 * a `next`.
 */
export async function listNotifications(
  db: Db,
  clientToken: string,
  filter: NotificationFilter,
  onPiece?: OnPiece,
): Promise<{ notifications: ListedNotification[]; next?: Position }> {
  const { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY } = filter;
  const notifications: ListedNotification[] = [];
  let pieces = 0;
  for await (const { entries, end } of listedEntries(db, clientToken, filter, onPiece)) {
    const matching = entries.filter(({ acceptedAt }) => acceptedAt >= since && acceptedAt <= until);
    const chosen = matching.slice(0, filter.limit - notifications.length);
    const ids = chosen.map(({ notificationId }) => notificationId);
    for (const record of await readRecords(db, clientToken, ids)) {
      // It may have ended since it was read.
      if (record !== undefined && (filter.state ?? record.state) === record.state) notifications.push(record);
    }
    const next = chosen.length < matching.length ? chosen.at(-1)?.position : end;
    const isDone = chosen.length < matching.length || notifications.length === filter.limit;
    if (next !== undefined && (isDone || ++pieces === piecesAtMost)) return { notifications, next };
  }
  return { notifications };
}

/** Lists the notifications that match and are known, in the order of the filter. */
export async function* listedEntries(db: Db, clientToken: string, filter: Match, onPiece: OnPiece = ignore) {
  const { behind = beginning, until } = filter;
  const latest = until === undefined ? beginning : { score: until, member: '' };
  const isBounded = orderOf(filter) === 'accepted' && !isBehind(behind, latest);
  let position: Position | undefined = isBounded ? latest : behind;
  const rest = restsBetweenSteps();
  while (position !== undefined) {
    const page: Entries = await readPage(db, clientToken, position, filter);
    onPiece();
    yield page;
    position = page.end;
    if (position !== undefined) await rest();
  }
}

/** The script's answer; `last`: absent if no more follow. */
interface Page {
  entries?: (Position & Omit<Entry, 'position'>)[];
  last?: Position;
}

/** Reads a page after a position. An owed asset in flight is on the page where it would wait. */
async function readPage(db: Db, clientToken: string, after: Position, filter: Match): Promise<Entries> {
  const { state = '', platformId = '', eventId = '', since = Number.NEGATIVE_INFINITY } = filter;
  const order = orderOf(filter);
  const own = [state, platformId, eventId];
  const args = [order, after.score, after.member, entriesPerStep, db.settings.keepFailedMs, ...own];
  const { entries = [], last: end } = await askScript<Page>(db, 'listPage', clientToken, args);
  const onPage = entries.filter((one) => isBehind(one, after) && (end === undefined || !isBehind(one, end)));
  return {
    entries: onPage
      .sort(byFallingScore)
      .map(({ score, member, ...entry }) => ({ ...entry, position: { score, member } })),
    end: end !== undefined && (order !== 'accepted' || end.score >= since) ? end : undefined,
  };
}

/**
 * Returns the newest of the listed notifications that names the event. Its id cannot be computed here: it
 * is also derived from asset and segments.
 */
export async function notificationOfEvent(db: Db, clientToken: string, eventId: string, onPiece?: OnPiece) {
  for await (const { entries } of listedEntries(db, clientToken, { eventId }, onPiece)) {
    const [newest] = entries;
    if (newest !== undefined) return await getNotification(db, clientToken, newest.notificationId);
  }
  return undefined;
}

/** Returns whether a member comes after another by falling score, in the order of the sorted set. */
const isBehind = (one: Position, after: Position): boolean =>
  (after.member === '' && one.score === after.score) || byFallingScore(one, after) > 0;

/** Sorts by falling scores, and members of one score as the sorted set does. */
export const byFallingScore = (a: Position, b: Position): number =>
  b.score - a.score || Buffer.compare(Buffer.from(b.member), Buffer.from(a.member));
