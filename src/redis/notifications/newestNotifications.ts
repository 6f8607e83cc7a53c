import { mapInPages } from '../../mapInPages.js';
import type { Db } from '../connection/db.js';
import { waitingEntries } from './notificationPages.js';
import { type ListedNotification, readRecords } from './notifications.js';
import { byFallingScore, type Place, pageBehind, startOf } from './place.js';

interface Listed {
  clientToken: string;
  notificationId: string;
  place: Place;
}

interface Options {
  waitingOnly: boolean;
  /** Accepted since then, ms. */
  since?: number;
  limit: number;
}

/** Clients read at the same time. */
const concurrency = 50;

/**
 * Returns the newest notifications of many clients, ordered like the list of each (`NotificationOrder`). It reads only
 * the records that are shown.
 */
export async function newestNotifications(
  db: Db,
  clientTokens: readonly string[],
  options: Options,
): Promise<ListedNotification[]> {
  const newestOf = options.waitingOnly ? newestWaiting : newestListed;
  let newest: Listed[] = [];
  for (let start = 0; start < clientTokens.length; start += concurrency) {
    const page = clientTokens.slice(start, start + concurrency);
    const found = await Promise.all(page.map((clientToken) => newestOf(db, clientToken, options)));
    newest = [...newest, ...found.flat()]
      .sort((a, b) => byFallingScore(a.place, b.place))
      .slice(0, options.limit);
  }
  const records = await mapInPages(newest, concurrency, async ({ clientToken, notificationId }) => {
    const [record] = await readRecords(db, clientToken, [notificationId]);
    return record;
  });
  return records.filter((record) => record !== undefined);
}

async function newestListed(
  db: Db,
  clientToken: string,
  { since = Number.NEGATIVE_INFINITY, limit }: Options,
): Promise<Listed[]> {
  const found = await pageBehind(db, clientToken, 'notifications', {
    place: startOf('falling'),
    direction: 'falling',
    count: limit,
  });
  return found
    .filter(({ score }) => score >= since)
    .map((place) => ({ clientToken, notificationId: place.member, place }));
}

async function newestWaiting(
  db: Db,
  clientToken: string,
  { since = Number.NEGATIVE_INFINITY, limit }: Options,
): Promise<Listed[]> {
  const newest: Listed[] = [];
  for await (const { entries } of waitingEntries(db, clientToken)) {
    for (const { place, notificationId, acceptedAt } of entries) {
      if (acceptedAt >= since) newest.push({ clientToken, notificationId, place });
    }
    if (newest.length >= limit) break;
  }
  return newest;
}
