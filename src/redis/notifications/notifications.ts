/** Reads the records of notifications. */
import { mapInPages } from '../../promises.js';
import { type Db, readFields } from '../connection/db.js';
import { askScript } from '../connection/library.js';
import { type AttemptRecord, type NotificationState, readStandings } from '../owed/standing.js';
import type { Priority } from '../owed/turn.js';
import type { WaitReason } from '../owed/waitReasons.js';
import { clientTokens } from '../records/clients.js';

/** Times are ms since the epoch. */
export interface NotificationRecord {
  notificationId: string;
  clientToken: string;
  platformId: string;
  eventId: string;
  state: NotificationState;
  priority: Priority;
  acceptedAt: number;
  /** The name of the workflow that it shares with others, `-` if it has none; absent: it has its own. */
  group?: string;
  endedAt?: number;
  /** When its event was claimed, as its requests say it. */
  updatedAt?: string;
  /** While it waits: when it may be attempted next (absent if it waits for a change from outside), and why then. */
  nextAttemptAt?: number;
  waitingReason?: WaitReason;
  /** The notification that took its place (`superseded`) or made it unnecessary (`not_needed`). */
  by?: string;
  /** `window` or `expired` if it `failed`; if it was `cancelled` with its client, asset or notices URL, that (src/web/words.ts). */
  reason?: string;
  attempts: AttemptRecord[];
}

/** A notification of a list: attempts are up to 8 KiB each, and are read of single notifications only. */
export type ListedNotification = Omit<NotificationRecord, 'attempts'>;

export async function getNotification(db: Db, clientToken: string, notificationId: string) {
  const [[found], lines] = await Promise.all([
    readRecords(db, clientToken, [notificationId]),
    db.redis.hget(db.client(clientToken).notification(notificationId), 'attempts'),
  ]);
  return found && { ...found, attempts: attemptsIn(lines) };
}

const attemptsIn = (lines: string | null): AttemptRecord[] =>
  lines ? lines.split('\n').map((line) => JSON.parse(line)) : [];

/** Reads the attempts of some notifications, up to 8 KiB of each. */
export const readAttemptsOf = (db: Db, clientToken: string, ids: readonly string[]) =>
  mapInPages(ids, 50, async (id) =>
    attemptsIn(await db.redis.hget(db.client(clientToken).notification(id), 'attempts')),
  );

/** Finds a notification by its id alone, over all clients: for operators, not for a read path. */
export async function findNotification(db: Db, notificationId: string) {
  for await (const page of clientTokens(db)) {
    const found = await Promise.all(
      page.map(async (token) => {
        const keys = db.client(token);
        if (await db.redis.exists(keys.notification(notificationId))) return true;
        return (await db.redis.hexists(keys.failedIds, notificationId)) === 1;
      }),
    );
    const owner = page[found.indexOf(true)];
    if (owner !== undefined) return getNotification(db, owner, notificationId);
  }
  return undefined;
}

/** What is known of a failed notification for longer than it has a record. */
type KeptFailed = Pick<
  ListedNotification,
  'platformId' | 'eventId' | 'priority' | 'acceptedAt' | 'endedAt' | 'reason'
>;

/**
 * Reads records without their attempts, in the order of the ids; undefined for an id without a record that is not a kept failed one.
 * Waiting ones say when they are attempted next, and why then.
 */
export async function readRecords(db: Db, clientToken: string, ids: readonly string[]) {
  const records = await Promise.all(ids.map((id) => readRecord(db, clientToken, id)));
  const gone = [...ids.entries()].filter(([i]) => records[i] === undefined);
  if (gone.length > 0) {
    const args = [db.settings.keepFailedMs, ...gone.map(([, id]) => id)];
    const kept = await askScript<Partial<KeptFailed>[]>(db, 'readFailed', clientToken, args);
    gone.forEach(([i, notificationId], n) => {
      const one = kept[n];
      if (one && isKept(one)) records[i] = { ...one, notificationId, clientToken, state: 'failed' };
    });
  }
  const waiting = records.filter((record) => record !== undefined).filter(({ state }) => state === 'waiting');
  const standings = await readStandings(db, clientToken, waiting);
  waiting.forEach((record, i) => {
    const standing = standings[i];
    if (standing === 'lost' || standing?.state !== 'waiting') return;
    const { reason, at } = standing;
    record.waitingReason = reason;
    if (at !== undefined && reason !== 'in_flight') record.nextAttemptAt = at + db.clockOffsetMs();
  });
  return records;
}

const isKept = (one: Partial<KeptFailed>): one is KeptFailed => one.platformId !== undefined;

async function readRecord(db: Db, clientToken: string, id: string): Promise<ListedNotification | undefined> {
  const key = db.client(clientToken).notification(id);
  const names = 'asset event accepted_at state priority group by reason ended_at updated_at';
  const { asset, state = 'waiting', group, by, reason, ...read } = await readFields(db, key, names);
  if (!asset) return undefined;
  return {
    notificationId: id,
    clientToken,
    platformId: asset,
    eventId: read.event ?? '',
    state: state as NotificationState,
    priority: read.priority === 'backfill' ? 'backfill' : 'live',
    acceptedAt: Number(read.accepted_at),
    ...(group && { group }),
    ...(read.ended_at && { endedAt: Number(read.ended_at) }),
    ...(read.updated_at && { updatedAt: read.updated_at }),
    ...(by && { by }),
    ...(reason && { reason }),
  };
}
