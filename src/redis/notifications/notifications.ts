/** Reads the records of notifications, and makes changes for operators and publishers. */
import { assetSlot, idToBytes } from '../../ids.js';
import { type Db, nowOf } from '../connection/db.js';
import type { FieldOf, HashOf } from '../connection/fields.js';
import { runScript } from '../connection/library.js';
import { runPipeline } from '../connection/pipeline.js';
import { announceClaims } from '../owed/owedClients.js';
import { type AttemptRecord, standingsOf, type WaitReason } from '../owed/standing.js';
import { type ListedPage, pageOfListed } from './listed.js';
import type { NotificationState } from './notificationStates.js';
import { type Place, startOf } from './place.js';

/** Times are ms since the epoch. */
export interface NotificationRecord {
  notificationId: string;
  clientToken: string;
  platformId: string;
  eventId: string;
  state: NotificationState;
  priority: 'live' | 'backfill';
  acceptedAt: number;
  /** The name of the workflow that it shares with others, `-` if it has none; absent: it has its own. */
  group?: string;
  endedAt?: number;
  /** While it waits: when it may be attempted next (absent if it waits for a change from outside), and why then. */
  nextAttemptAt?: number;
  waitingReason?: WaitReason;
  /** The notification that took its place (`superseded`) or made it unnecessary (`not_needed`). */
  by?: string;
  /** Why it `failed`: `window` or `expired`; was `cancelled`: `client_deleted`. */
  reason?: string;
  attempts: AttemptRecord[];
}

/** A notification of a list: attempts are up to 8 KiB each, and are read of single notifications only. */
export type ListedNotification = Omit<NotificationRecord, 'attempts'>;

export async function getNotification(
  db: Db,
  clientToken: string,
  notificationId: string,
): Promise<NotificationRecord | undefined> {
  const [[found], lines] = await Promise.all([
    readRecords(db, clientToken, [notificationId]),
    db.redis.hget(db.client(clientToken).notification(notificationId), 'attempts'),
  ]);
  const attempts = lines ? lines.split('\n').map((line) => JSON.parse(line) as AttemptRecord) : [];
  return found && { ...found, attempts };
}

/** Finds a notification by its id alone, over all clients: for operators, not for a read path. */
export async function findNotification(
  db: Db,
  notificationId: string,
): Promise<NotificationRecord | undefined> {
  let cursor = '0';
  do {
    const [next, clientTokens] = await db.redis.sscan(db.global.clients, cursor, 'COUNT', 500);
    cursor = next;
    const pipeline = db.redis.pipeline();
    for (const clientToken of clientTokens)
      pipeline.exists(db.client(clientToken).notification(notificationId));
    const answers = (await pipeline.exec()) ?? [];
    const at = answers.findIndex(([, exists]) => exists === 1);
    const owner = clientTokens[at];
    if (owner !== undefined) return getNotification(db, owner, notificationId);
  } while (cursor !== '0');
  return undefined;
}

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
  await announceClaims(db, [clientToken]);
  const dueId = (await runScript(db, 'redeliver', clientToken, [notificationId])) as string;
  return dueId || undefined;
}

/**
 * Makes notifications owed again that ended as failed in that time, unless their asset has a newer one. The caller wakes
 * catch-up. `dryRun` only counts.
 */
export async function recoverFailed(
  db: Db,
  clientToken: string,
  range: { since: number; until: number; dryRun: boolean },
): Promise<{ count: number }> {
  let count = 0;
  // From here on the sweep knows this client, even if the rest fails.
  if (!range.dryRun) await announceClaims(db, [clientToken]);
  let place: Place | undefined = startOf('falling');
  while (place !== undefined) {
    const match = { state: 'failed' } as const;
    const page: ListedPage = await pageOfListed(db, clientToken, match, { place, count: 200 });
    place = page.end;
    const ids = page.found.map(({ member }) => member);
    for (const found of await readRecords(db, clientToken, ids)) {
      if (found?.endedAt === undefined) continue;
      if (found.endedAt < range.since || found.endedAt > range.until) continue;
      const { bucket, field } = assetSlot(found.platformId);
      const id = found.notificationId;
      const args = [id, range.dryRun ? 1 : 0, bucket, field, idToBytes(id)];
      count += Number(await runScript(db, 'recover', clientToken, args));
    }
  }
  return { count };
}

/** The fields of a record that a list shows. */
const listed: readonly FieldOf<'notification'>[] = [
  ...(['asset', 'event', 'accepted_at', 'state', 'priority', 'group', 'by', 'reason', 'ended_at'] as const),
];

/** Reads records without their attempts, in the order of the ids; undefined for an id without a record. */
export async function readRecords(
  db: Db,
  clientToken: string,
  ids: readonly string[],
): Promise<(ListedNotification | undefined)[]> {
  const keys = db.client(clientToken);
  const commands = db.redis.pipeline();
  for (const id of ids) commands.hmget(keys.notification(id), ...listed);
  const answers = (await runPipeline(commands)) as (string | null)[][];
  const records = ids.map((id, i) => recordOf(clientToken, id, answers[i] ?? []));
  await tellWhenNext(
    db,
    clientToken,
    records.filter((record): record is ListedNotification => record?.state === 'waiting'),
  );
  return records;
}

/** Adds to waiting records when they are attempted next, and why then. */
async function tellWhenNext(db: Db, clientToken: string, waiting: ListedNotification[]): Promise<void> {
  if (waiting.length === 0) return;
  const standings = await standingsOf(db, clientToken, waiting);
  waiting.forEach((record, i) => {
    const standing = standings[i];
    if (standing?.kind !== 'waiting') return;
    const { reason, inMs } = standing;
    record.waitingReason = reason;
    if (inMs !== undefined && reason !== 'in_flight') record.nextAttemptAt = nowOf(db) + inMs;
  });
}

function recordOf(
  clientToken: string,
  id: string,
  values: readonly (string | null)[],
): ListedNotification | undefined {
  const f: HashOf<'notification'> = Object.fromEntries(
    listed.map((name, i) => [name, values[i] ?? undefined]),
  );
  if (f.asset === undefined) return undefined;
  return {
    notificationId: id,
    clientToken,
    platformId: f.asset,
    eventId: f.event ?? '',
    state: (f.state ?? 'waiting') as NotificationState,
    priority: f.priority === 'backfill' ? 'backfill' : 'live',
    acceptedAt: Number(f.accepted_at),
    ...(f.group === undefined ? {} : { group: f.group }),
    ...(f.ended_at === undefined ? {} : { endedAt: Number(f.ended_at) }),
    ...(f.by === undefined ? {} : { by: f.by }),
    ...(f.reason === undefined ? {} : { reason: f.reason }),
  };
}
