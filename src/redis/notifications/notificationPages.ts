/** Lists of one client's notifications, page by page, while notifications come and end. */

import type { Db } from '../connection/db.js';
import { pageOfWaiting } from '../owed/waiting.js';
import { notificationsOfAsset } from './assetNotifications.js';
import { pageOfListed } from './listed.js';
import type { NotificationState } from './notificationStates.js';
import { type NotificationRecord, readRecords } from './notifications.js';
import { isBehind, type Place, startOf } from './place.js';

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

/** Entries read in one step. */
const entriesPerStep = 100;
/** Bounds the work of one call if a filter matches little: 2,000 entries; the place then continues the list. */
const piecesAtMost = 20;

/**
 * Lists all waiting notifications; for one asset all that are kept; otherwise the newest 10,000.
 * A page may be shorter than `limit`, even empty, while there is a `next`.
 */
export async function listNotifications(
  db: Db,
  clientToken: string,
  filter: NotificationFilter,
): Promise<{ notifications: NotificationRecord[]; next?: Place }> {
  const { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY } = filter;
  const notifications: NotificationRecord[] = [];
  let pieces = 0;
  for await (const { entries, end } of entriesOf(db, clientToken, filter)) {
    const matching = entries.filter(({ acceptedAt }) => acceptedAt >= since && acceptedAt <= until);
    const chosen = matching.slice(0, filter.limit - notifications.length);
    for (const record of await readRecords(db, clientToken, chosen.map(idOf))) {
      // It may have ended since it was read.
      if (record !== undefined && (filter.state ?? record.state) === record.state) notifications.push(record);
    }
    const next = chosen.length < matching.length ? chosen.at(-1)?.place : end;
    const isDone = chosen.length < matching.length || notifications.length === filter.limit;
    if (next !== undefined && (isDone || ++pieces === piecesAtMost)) return { notifications, next };
  }
  return { notifications };
}

const idOf = (entry: Entry): string => entry.notificationId;

function entriesOf(db: Db, clientToken: string, filter: NotificationFilter): AsyncGenerator<Entries> {
  if (orderOf(filter) === 'owed_since') return waitingEntries(db, clientToken, filter);
  if (filter.platformId === undefined) return listedEntries(db, clientToken, filter);
  return entriesOfAsset(db, clientToken, filter.platformId, filter);
}

/** Lists the notifications that the client is owed. */
export async function* waitingEntries(
  db: Db,
  clientToken: string,
  { behind = startOf('falling') }: Pick<NotificationFilter, 'behind'> = {},
): AsyncGenerator<Entries> {
  let place: Place | undefined = behind;
  while (place !== undefined) {
    const { waiting, end } = await pageOfWaiting(db, clientToken, { place, count: entriesPerStep });
    yield { entries: waiting, ...(end && { end }) };
    place = end;
  }
}

/** Lists the newest 10,000. */
async function* listedEntries(
  db: Db,
  clientToken: string,
  filter: NotificationFilter,
): AsyncGenerator<Entries> {
  let place: Place | undefined = beginningOf(filter);
  while (place !== undefined) {
    const { found, end }: { found: Place[]; end?: Place } = await pageOfListed(db, clientToken, filter, {
      place,
      count: entriesPerStep,
    });
    place = end !== undefined && end.score >= (filter.since ?? end.score) ? end : undefined;
    yield { entries: found.map(entryOf), ...(place && { end: place }) };
  }
}

async function* entriesOfAsset(
  db: Db,
  clientToken: string,
  platformId: string,
  filter: NotificationFilter,
): AsyncGenerator<Entries> {
  const all = await notificationsOfAsset(db, clientToken, platformId);
  if (all === undefined) return yield* listedEntries(db, clientToken, filter);
  const beginning = beginningOf(filter);
  const left = all
    .filter(({ place, state }) => isBehind(place, beginning) && (filter.state ?? state) === state)
    .map(({ place }) => place);
  for (let start = 0; start < left.length; start += entriesPerStep) {
    const piece = left.slice(start, start + entriesPerStep);
    const end = start + entriesPerStep < left.length ? piece.at(-1) : undefined;
    yield { entries: piece.map(entryOf), ...(end && { end }) };
  }
}

function beginningOf({ behind, until }: NotificationFilter): Place {
  const latest = until === undefined ? startOf('falling') : { score: until, member: '' };
  return behind !== undefined && isBehind(behind, latest) ? behind : latest;
}

/** A place in the order of acceptance belongs to a notification. */
const entryOf = (place: Place): Entry => ({
  place,
  notificationId: place.member,
  acceptedAt: place.score,
});
