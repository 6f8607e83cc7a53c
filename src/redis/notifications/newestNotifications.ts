/** The newest notifications of many clients, of which most have nothing new. */
import { mapInPages, restsBetweenSteps } from '../../promises.js';
import { type Db, nowOf } from '../connection/db.js';
import { answerOf, readEachKey } from '../connection/library.js';
import { clientsToLookAt, indexedMs } from '../owed/owedClients.js';
import { clientTokens, getClient } from '../records/clients.js';
import { isAmissKnown } from '../records/counts.js';
import {
  byFallingScore,
  completeSince,
  type Entry,
  keptSince,
  listedEntries,
  type NotificationFilter,
  orderOf,
} from './notificationPages.js';
import { readRecords } from './notifications.js';

type Filter = Omit<NotificationFilter, 'platformId' | 'until'>;

/** Returns the newest notifications of one client, or of all; `next` if there are more, `since`: from when they are complete. */
export async function newestNotifications(db: Db, client: string | undefined, filter: Filter) {
  const newest = collectNewest(db, filter);
  if (client === undefined) return newest.read(await addAll(db, newest, filter));
  await newest.add([client]);
  return newest.read();
}

/** For so long are clients read that have claimed nothing lately. */
const othersMs = 3000;

/** Adds every client, those first that may have the newest. @returns from when no client that was not added has anything */
async function addAll(db: Db, newest: ReturnType<typeof collectNewest>, filter: Filter) {
  const indexedSince = nowOf(db) - indexedMs;
  const order = orderOf(filter);
  const seen = new Set<string>();
  for await (const page of clientsToLookAt(db)) {
    for (const token of page) seen.add(token);
    await newest.add(page);
  }
  if (order === 'owed_since' || (order === 'failed_at' && (await isAmissKnown(db)))) return undefined;
  if ((filter.since ?? 0) >= indexedSince) return undefined;
  if (newest.isFullSince(indexedSince)) return indexedSince;
  const endMs = performance.now() + othersMs;
  for await (const page of clientTokens(db)) {
    if (newest.isFullSince(indexedSince) || performance.now() > endMs) return indexedSince;
    await newest.add(page.filter((token) => !seen.has(token)));
  }
  return undefined;
}

const concurrency = 50;

/**
 * Collects the newest notifications of many clients, ordered like the list of each (`NotificationOrder`). It reads only the records that
 * are shown. A page is longer than `limit` where several clients have one position.
 */
export function collectNewest(db: Db, filter: Filter) {
  const { since = Number.NEGATIVE_INFINITY, limit } = filter;
  const order = orderOf(filter);
  const rest = restsBetweenSteps();
  let newest: (Entry & { clientToken: string })[] = [];
  let hasMore = false;
  let reach = keptSince(db, order);
  /** Returns whether all that is older than this time is left out. */
  const isFullSince = (score: number) =>
    (newest[limit - 1]?.position.score ?? Number.NEGATIVE_INFINITY) > score;

  async function addClient(clientToken: string): Promise<void> {
    if (order === 'accepted')
      reach = Math.max((await completeSince(db, clientToken, order)) ?? 0, reach ?? 0);
    const found: typeof newest = [];
    for await (const { entries } of listedEntries(db, clientToken, filter)) {
      for (const entry of entries) if (entry.acceptedAt >= since) found.push({ ...entry, clientToken });
      if (found.length > limit) break;
    }
    // What a deleted client still has is being removed.
    if (found.length === 0 || !(await getClient(db, clientToken))) return;
    const all = [...newest, ...found].sort((a, b) => byFallingScore(a.position, b.position));
    const last = all[limit - 1]?.position;
    newest = last === undefined ? all : all.filter(({ position }) => byFallingScore(position, last) <= 0);
    hasMore ||= newest.length < all.length;
  }

  /** Leaves out clients that have nothing newer than what was found. */
  async function newerOf(clientTokens: readonly string[]): Promise<readonly string[]> {
    if (order !== 'accepted') return clientTokens;
    const keys = clientTokens.map((clientToken) => db.client(clientToken).notifications);
    const lasts = await readEachKey<string[]>(db, keys, 'ZREVRANGE', [0, 0, 'WITHSCORES'], rest);
    return clientTokens.filter((_, i) => {
      const last = answerOf(lasts[i] ?? []);
      const isOlder = last.length > 0 && isFullSince(Number(last[1]));
      hasMore ||= isOlder;
      return last.length > 0 && !isOlder;
    });
  }

  return {
    add: async (clientTokens: readonly string[]): Promise<void> => {
      await mapInPages(await newerOf(clientTokens), concurrency, addClient, rest);
      await rest();
    },
    isFullSince,
    /**
     * Returns what was found; `next` if there is more; `since`: from when it is complete.
     * @param leftOut from when there is nothing of clients that were not added
     */
    async read(leftOut?: number) {
      const records = await mapInPages(newest, concurrency, ({ clientToken, notificationId }) =>
        readRecords(db, clientToken, [notificationId]),
      );
      return {
        notifications: records.flat().filter((record) => record !== undefined),
        next: hasMore || leftOut !== undefined ? newest.at(-1)?.position : undefined,
        since: leftOut === undefined || isFullSince(leftOut) ? reach : Math.max(reach ?? 0, leftOut),
      };
    },
  };
}
