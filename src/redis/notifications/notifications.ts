/** Reads the records of notifications. */
import { type Db, nowOf } from '../connection/db.js';
import { runPipeline } from '../connection/pipeline.js';
import { type AttemptRecord, standingsOf, type WaitReason } from '../owed/standing.js';
import { clientTokens } from '../records/clients.js';

export const notificationStates = [
  'waiting',
  'delivered',
  'superseded',
  'not_needed',
  'failed',
  'cancelled',
] as const;
export type NotificationState = (typeof notificationStates)[number];

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
  for await (const page of clientTokens(db)) {
    const commands = db.redis.pipeline();
    for (const token of page) commands.exists(db.client(token).notification(notificationId));
    const owner = page[(await runPipeline(commands)).indexOf(1)];
    if (owner !== undefined) return getNotification(db, owner, notificationId);
  }
  return undefined;
}

/** The fields of a record that a list shows. */
const listed = ['asset', 'event', 'accepted_at', 'state', 'priority', 'group', 'by', 'reason', 'ended_at'];

/**
 * Reads records without their attempts, in the order of the ids; undefined for an id without a record. Waiting ones say when they are
 * attempted next, and why then.
 */
export async function readRecords(
  db: Db,
  clientToken: string,
  ids: readonly string[],
): Promise<(ListedNotification | undefined)[]> {
  const keys = db.client(clientToken);
  const commands = db.redis.pipeline();
  for (const id of ids) commands.hmget(keys.notification(id), ...listed);
  const answers = (await runPipeline(commands)) as (string | null)[][];
  const records = ids.map((id, i) => parseRecord(clientToken, id, answers[i] ?? []));
  const waiting = records.filter((record) => record !== undefined).filter(({ state }) => state === 'waiting');
  const standings = await standingsOf(db, clientToken, waiting);
  waiting.forEach((record, i) => {
    const standing = standings[i];
    if (standing?.kind !== 'waiting') return;
    const { reason, inMs } = standing;
    record.waitingReason = reason;
    if (inMs !== undefined && reason !== 'in_flight') record.nextAttemptAt = nowOf(db) + inMs;
  });
  return records;
}

function parseRecord(
  clientToken: string,
  id: string,
  values: readonly (string | null)[],
): ListedNotification | undefined {
  const [asset, event, acceptedAt, state, priority, group, by, reason, endedAt] = values;
  if (!asset) return undefined;
  return {
    notificationId: id,
    clientToken,
    platformId: asset,
    eventId: event ?? '',
    state: (state ?? 'waiting') as NotificationState,
    priority: priority === 'backfill' ? 'backfill' : 'live',
    acceptedAt: Number(acceptedAt),
    ...(group && { group }),
    ...(endedAt && { endedAt: Number(endedAt) }),
    ...(by && { by }),
    ...(reason && { reason }),
  };
}
