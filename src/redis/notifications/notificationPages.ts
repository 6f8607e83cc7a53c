/** Lists of one client's notifications, page by page, while notifications come and end. */
import { assetSlot, idOfAnswer } from '../../ids.js';
import { mapInPages } from '../../promises.js';
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { runPipeline } from '../connection/pipeline.js';
import { pageOfWaiting } from '../owed/waiting.js';
import {
  getNotification,
  type ListedNotification,
  type NotificationRecord,
  type NotificationState,
  readRecords,
} from './notifications.js';
import { beginning, byFallingScore, isBehind, type Place, placeArguments, placesOf } from './place.js';

export interface NotificationFilter {
  state?: NotificationState;
  platformId?: string;
  /** Accepted then or later, ms. */
  since?: number;
  /** Accepted then or earlier, ms. */
  until?: number;
  /** The end of the previous page. */
  behind?: Place;
  limit: number;
}

/** A filter of the list of the newest 10,000. */
type Match = Omit<NotificationFilter, 'limit'> & { eventId?: string };

/**
 * The order of a list, the latest first: waiting notifications by the time since which their asset is owed, which a newer
 * event does not change; all others by the time of acceptance. A place belongs to one order.
 */
export type NotificationOrder = 'accepted' | 'owed_since';

export function orderOf({ state, platformId }: NotificationFilter): NotificationOrder {
  return state === 'waiting' && platformId === undefined ? 'owed_since' : 'accepted';
}

interface Entry {
  place: Place;
  notificationId: string;
  acceptedAt: number;
}

/** `end`: where to continue; absent if nothing follows. */
interface Entries {
  entries: Entry[];
  end?: Place;
}

/** Entries read in one step, in less than a millisecond. */
const entriesPerStep = 200;
/** Bounds the work of one call if a filter matches little: 10,000 entries; the place then continues the list. */
const piecesAtMost = 50;

/**
 * Lists all waiting notifications, or the newest 10,000; for one asset also the one that is owed, if it is older.
 * A page may be shorter than `limit`, even empty, while there is a `next`.
 */
export async function listNotifications(
  db: Db,
  clientToken: string,
  filter: NotificationFilter,
): Promise<{ notifications: ListedNotification[]; next?: Place }> {
  const { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY } = filter;
  const notifications: ListedNotification[] = [];
  let pieces = 0;
  for await (const { entries, end } of entriesOf(db, clientToken, filter)) {
    const matching = entries.filter(({ acceptedAt }) => acceptedAt >= since && acceptedAt <= until);
    const chosen = matching.slice(0, filter.limit - notifications.length);
    const ids = chosen.map(({ notificationId }) => notificationId);
    for (const record of await readRecords(db, clientToken, ids)) {
      // It may have ended since it was read.
      if (record !== undefined && (filter.state ?? record.state) === record.state) notifications.push(record);
    }
    const next = chosen.length < matching.length ? chosen.at(-1)?.place : end;
    const isDone = chosen.length < matching.length || notifications.length === filter.limit;
    if (next !== undefined && (isDone || ++pieces === piecesAtMost)) return { notifications, next };
  }
  return { notifications };
}

function entriesOf(db: Db, clientToken: string, filter: NotificationFilter): AsyncGenerator<Entries> {
  if (orderOf(filter) === 'owed_since') return waitingEntries(db, clientToken, filter);
  if (filter.platformId === undefined) return listedEntries(db, clientToken, filter);
  return entriesOfAsset(db, clientToken, filter.platformId, filter);
}

/** Lists the notifications that the client is owed. */
async function* waitingEntries(
  db: Db,
  clientToken: string,
  { behind = beginning }: Pick<NotificationFilter, 'behind'> = {},
): AsyncGenerator<Entries> {
  let place: Place | undefined = behind;
  while (place !== undefined) {
    const { waiting, end } = await pageOfWaiting(db, clientToken, { place, count: entriesPerStep });
    yield { entries: waiting, end };
    place = end;
  }
}

/** Lists those of the newest 10,000 that match and have a record. */
export async function* listedEntries(db: Db, clientToken: string, filter: Match): AsyncGenerator<Entries> {
  const { state = '', platformId: asset = '', eventId: event = '', since } = filter;
  let place: Place | undefined = beginningOf(filter);
  while (place !== undefined) {
    const args = [...placeArguments(place), entriesPerStep, state, asset, event];
    const answer = await runScript(db, 'listedPage', clientToken, args);
    const [last, found] = answer as [string[], string[]];
    const [end] = placesOf(last);
    place = end !== undefined && end.score >= (since ?? end.score) ? end : undefined;
    yield { entries: placesOf(found).map(entryOf), end: place };
  }
}

async function* entriesOfAsset(
  db: Db,
  clientToken: string,
  platformId: string,
  filter: NotificationFilter,
): AsyncGenerator<Entries> {
  for await (const { entries, end } of listedEntries(db, clientToken, filter)) {
    if (end !== undefined) yield { entries, end };
    else {
      const unlisted = await newestUnlisted(db, clientToken, platformId);
      const follows = unlisted !== undefined && isBehind(unlisted, beginningOf(filter));
      yield { entries: follows ? [...entries, entryOf(unlisted)] : entries };
    }
  }
}

/** Returns the asset's newest notification if the list does not have it: it may still be owed. */
async function newestUnlisted(db: Db, clientToken: string, platformId: string): Promise<Place | undefined> {
  const keys = db.client(clientToken);
  const { bucket, field } = assetSlot(platformId);
  const known = await db.redis.hgetBuffer(keys.known(bucket), field);
  const id = idOfAnswer(known?.subarray(4, 20));
  if (id === undefined) return undefined;
  const [listed, acceptedAt] = await runPipeline(
    db.redis.pipeline().zscore(keys.notifications, id).hget(keys.notification(id), 'accepted_at'),
  );
  return listed === null && acceptedAt !== null ? { score: Number(acceptedAt), member: id } : undefined;
}

function beginningOf({ behind, until }: Match): Place {
  const latest = until === undefined ? beginning : { score: until, member: '' };
  return behind !== undefined && isBehind(behind, latest) ? behind : latest;
}

/** A place in the order of acceptance belongs to a notification. */
const entryOf = (place: Place): Entry => ({
  place,
  notificationId: place.member,
  acceptedAt: place.score,
});

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

/** Clients read at the same time. */
const concurrency = 50;

interface NewestFilter {
  waitingOnly: boolean;
  /** Accepted since then, ms. */
  since?: number;
  limit: number;
}

/**
 * Returns the newest notifications of many clients, ordered like the list of each (`NotificationOrder`). It reads only
 * the records that are shown.
 */
export async function newestNotifications(
  db: Db,
  clientTokens: readonly string[],
  filter: NewestFilter,
): Promise<ListedNotification[]> {
  let newest: (Entry & { clientToken: string })[] = [];
  for (let start = 0; start < clientTokens.length; start += concurrency) {
    const page = clientTokens.slice(start, start + concurrency);
    const found = await mapInPages(page, concurrency, async (clientToken) => {
      const entries = await newestEntries(db, clientToken, filter);
      return entries.map((entry) => ({ ...entry, clientToken }));
    });
    newest = [...newest, ...found.flat()]
      .sort((a, b) => byFallingScore(a.place, b.place))
      .slice(0, filter.limit);
  }
  const records = await mapInPages(newest, concurrency, ({ clientToken, notificationId }) =>
    readRecords(db, clientToken, [notificationId]),
  );
  return records.flat().filter((record) => record !== undefined);
}

async function newestEntries(
  db: Db,
  clientToken: string,
  { waitingOnly, since = Number.NEGATIVE_INFINITY, limit }: NewestFilter,
): Promise<Entry[]> {
  let newest: Entry[] = [];
  if (waitingOnly) {
    for await (const { entries } of waitingEntries(db, clientToken)) {
      newest.push(...entries.filter(({ acceptedAt }) => acceptedAt >= since));
      if (newest.length >= limit) break;
    }
  } else {
    const { notifications } = db.client(clientToken);
    const flat = await db.redis.zrevrange(notifications, 0, limit - 1, 'WITHSCORES');
    newest = placesOf(flat)
      .map(entryOf)
      .filter(({ acceptedAt }) => acceptedAt >= since);
  }
  return newest;
}
