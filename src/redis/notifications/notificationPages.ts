/** Lists of one client's notifications, page by page, while notifications come and end. */
import { mapInPages } from '../../promises.js';
import { type Db, toPairs } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import type { NotificationState } from '../owed/standing.js';
import {
  getNotification,
  type ListedNotification,
  type NotificationRecord,
  readRecords,
} from './notifications.js';

/** A position in a sorted set, by value: a page begins after it, not at a rank, because members come and go meanwhile. */
export interface Position {
  score: number;
  /** It need not exist; '' comes before every member of that score. */
  member: string;
}

/** The position before every member, by falling score. */
export const beginning: Position = { score: Number.MAX_SAFE_INTEGER, member: '' };

export interface NotificationFilter {
  state?: NotificationState;
  platformId?: string;
  /** Accepted then or later, ms. */
  since?: number;
  /** Accepted then or earlier, ms. */
  until?: number;
  /** The end of the previous page. */
  behind?: Position;
  limit: number;
}

/** A filter of the list of the newest 10,000. */
type Match = Omit<NotificationFilter, 'limit'> & { eventId?: string };

/**
 * The order of a list, the latest first: waiting notifications by the time since which their asset is owed, which a newer
 * event does not change; all others by the time of acceptance. A position belongs to one order.
 */
export type NotificationOrder = 'accepted' | 'owed_since';

export function orderOf({ state, platformId }: Match): NotificationOrder {
  return state === 'waiting' && platformId === undefined ? 'owed_since' : 'accepted';
}

/** `position`: in the order of acceptance, that time (ms) and the notification; in the order of "owed since", that time (ms) and the asset. */
interface Entry {
  position: Position;
  notificationId: string;
  acceptedAt: number;
}

/** `end`: where to continue; absent if nothing follows. */
interface Entries {
  entries: Entry[];
  end?: Position;
}

/** Entries read in one step, in less than a millisecond. */
const entriesPerStep = 200;
/** Bounds the work of one call if a filter matches little: 10,000 entries; the position then continues the list. */
const piecesAtMost = 50;

/**
 * Lists all waiting notifications, or the newest 10,000. The list of one asset ends with the notification by which the asset is
 * owed, if that is older. A page may be shorter than `limit`, even empty, while there is a `next`.
 */
export async function listNotifications(
  db: Db,
  clientToken: string,
  filter: NotificationFilter,
): Promise<{ notifications: ListedNotification[]; next?: Position }> {
  const { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY } = filter;
  const notifications: ListedNotification[] = [];
  let pieces = 0;
  for await (const { entries, end } of listedEntries(db, clientToken, filter)) {
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

/** Lists the notifications that match and have a record, in the order of the filter. */
export async function* listedEntries(db: Db, clientToken: string, filter: Match): AsyncGenerator<Entries> {
  const { behind = beginning, until } = filter;
  const latest = until === undefined ? beginning : { score: until, member: '' };
  const readPage = orderOf(filter) === 'owed_since' ? waitingPage : listedPage;
  let position: Position | undefined = readPage === waitingPage || isBehind(behind, latest) ? behind : latest;
  while (position !== undefined) {
    const page: Entries = await readPage(db, clientToken, position, filter);
    yield page;
    position = page.end;
  }
}

/** Reads owed assets; one in flight has the position where it would wait. */
async function waitingPage(db: Db, clientToken: string, after: Position): Promise<Entries> {
  const answer = await runScript(db, 'waitingPage', clientToken, [after.score, after.member, entriesPerStep]);
  const [last, waiting, inFlight] = answer as [string[], waiting: string[][], inFlight: string[][]];
  const [end] = parsePositions(last);
  const onPage = inFlight
    .map(waitingEntry)
    .filter((one) => isBehind(one.position, after) && (end === undefined || !isBehind(one.position, end)));
  const entries = [...waiting.map(waitingEntry), ...onPage];
  return { entries: entries.sort((a, b) => byFallingScore(a.position, b.position)), end };
}

function waitingEntry([member = '', notificationId = '', since, acceptedAt]: string[]): Entry {
  return { position: { score: Number(since), member }, notificationId, acceptedAt: Number(acceptedAt) };
}

async function listedPage(db: Db, clientToken: string, after: Position, filter: Match): Promise<Entries> {
  const { state = '', platformId = '', eventId = '', since = Number.NEGATIVE_INFINITY } = filter;
  const args = [after.score, after.member, entriesPerStep, state, platformId, eventId];
  const [last, found] = (await runScript(db, 'listedPage', clientToken, args)) as string[][];
  const [end] = parsePositions(last ?? []);
  const entries = parsePositions(found ?? [])
    .filter((one) => isBehind(one, after))
    .map((one) => ({ position: one, notificationId: one.member, acceptedAt: one.score }));
  return { entries, end: end !== undefined && end.score >= since ? end : undefined };
}

/**
 * Returns the newest of the 10,000 listed notifications that names the event. Its id cannot be computed here: it
 * is also derived from asset and segments.
 */
export async function notificationOfEvent(
  db: Db,
  clientToken: string,
  eventId: string,
): Promise<NotificationRecord | undefined> {
  for await (const { entries } of listedEntries(db, clientToken, { eventId })) {
    const [newest] = entries;
    if (newest !== undefined) return await getNotification(db, clientToken, newest.notificationId);
  }
  return undefined;
}

const concurrency = 50;

/**
 * Returns the newest notifications of many clients, ordered like the list of each (`NotificationOrder`). It reads only
 * the records that are shown.
 */
export async function newestNotifications(
  db: Db,
  clientTokens: readonly string[],
  { state, since = Number.NEGATIVE_INFINITY, limit }: Pick<NotificationFilter, 'state' | 'since' | 'limit'>,
): Promise<ListedNotification[]> {
  let newest: (Entry & { clientToken: string })[] = [];
  await mapInPages(clientTokens, concurrency, async (clientToken) => {
    const found: (Entry & { clientToken: string })[] = [];
    for await (const { entries } of listedEntries(db, clientToken, { state, since })) {
      for (const entry of entries) if (entry.acceptedAt >= since) found.push({ ...entry, clientToken });
      if (found.length >= limit) break;
    }
    newest = [...newest, ...found].sort((a, b) => byFallingScore(a.position, b.position)).slice(0, limit);
  });
  const records = await mapInPages(newest, concurrency, ({ clientToken, notificationId }) =>
    readRecords(db, clientToken, [notificationId]),
  );
  return records.flat().filter((record) => record !== undefined);
}

/** Returns whether a member comes after another by falling score, in the order of the sorted set. */
function isBehind(one: Position, after: Position): boolean {
  if (after.member === '' && one.score === after.score) return true;
  return byFallingScore(one, after) > 0;
}

/** Sorts by falling scores, and members of one score as the sorted set does. */
export const byFallingScore = (a: Position, b: Position): number =>
  b.score - a.score || Buffer.compare(Buffer.from(b.member), Buffer.from(a.member));

/** Reads alternating members and scores from a script's answer. */
export function parsePositions(flat: readonly string[]): Position[] {
  return toPairs(flat).map(([member, score]) => ({ member, score: Number(score) }));
}
