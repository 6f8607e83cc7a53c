/** Makes notifications due or owed again, or cancels them, for operators and publishers. */
import { assetSlot } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { announceClaims } from '../owed/owedClients.js';
import { listedEntries } from './notificationPages.js';
import { readRecords } from './notifications.js';

/** Cancels a waiting notification, for an operator. @returns false if it does not wait (any more) */
export async function cancelNotification(
  db: Db,
  clientToken: string,
  notificationId: string,
): Promise<boolean> {
  return (await runScript(db, 'cancel', clientToken, [notificationId])) === 1;
}

/**
 * Sends a notification again: a waiting one is due now, an ended one is owed again. If its asset is owed by a newer one, that one is due.
 * The caller wakes catch-up.
 * @returns the id of the notification that is due now; undefined if there is no record
 */
export async function redeliver(
  db: Db,
  clientToken: string,
  notificationId: string,
): Promise<string | undefined> {
  // From here on the sweep knows this client, even if the rest fails.
  await announceClaims(db, clientToken);
  const dueId = (await runScript(db, 'redeliver', clientToken, [notificationId])) as string;
  return dueId || undefined;
}

/** As `trim_list` of notification.lua has it. */
const listedAtMost = 10_000;

/** A span of time. `dryRun` only counts. Times are ms. */
interface Range {
  since: number;
  until: number;
  dryRun: boolean;
}

/**
 * Makes each asset owed again whose newest notification failed in that time, unless it is owed. The caller wakes catch-up.
 * @returns `count`: assets that are owed again (or would be)
 */
export async function recoverFailed(db: Db, clientToken: string, range: Range): Promise<{ count: number }> {
  return { count: await oweAgain(db, clientToken, 'failed', range) };
}

/**
 * Makes each asset with a notification delivered in that time owed again by its newest one, unless it is owed or
 * was delivered after that time. The caller wakes catch-up.
 * @returns `listedSince`: set if deliveries of that time may be missing, because the client's list is full, and begins with this
 * acceptance, ms
 */
export async function replayDelivered(
  db: Db,
  clientToken: string,
  range: Range,
): Promise<{ count: number; listedSince?: number }> {
  const { notifications } = db.client(clientToken);
  const [listed, [, oldest]] = await Promise.all([
    db.redis.zcard(notifications),
    db.redis.zrange(notifications, '0', '0', 'WITHSCORES'),
  ]);
  const count = await oweAgain(db, clientToken, 'delivered', range);
  const isShort = listed >= listedAtMost && Number(oldest) > range.since;
  return { count, ...(isShort && { listedSince: Number(oldest) }) };
}

async function oweAgain(
  db: Db,
  clientToken: string,
  state: 'failed' | 'delivered',
  { since, until, dryRun }: Range,
): Promise<number> {
  if (!dryRun) await announceClaims(db, clientToken);
  const seen = new Set<string>();
  let count = 0;
  for await (const { entries } of listedEntries(db, clientToken, { state })) {
    const ids = entries.map(({ notificationId }) => notificationId);
    const assets = (await readRecords(db, clientToken, ids)).flatMap((record) => {
      if (record?.state !== state || seen.has(record.platformId)) return [];
      const { platformId, notificationId, endedAt = 0 } = record;
      if (endedAt < since || endedAt > until) return [];
      seen.add(platformId);
      const { bucket, field } = assetSlot(platformId);
      return [platformId, notificationId, bucket, field];
    });
    if (assets.length === 0) continue;
    const args = [state, since, until, dryRun ? 1 : 0, ...assets];
    count += Number(await runScript(db, 'oweAgain', clientToken, args));
  }
  return count;
}
