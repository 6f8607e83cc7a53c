/** The records of notifications: reading them, and what people may change of them. */
import { assetSlot, idToBytes } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runPipeline } from '../connection/pipeline.js';
import { clientScript, runScript, text } from '../connection/script.js';
import { notificationLua } from '../owed/notificationLua.js';
import { announceClaims } from '../owed/owed.js';
import type { AttemptRecord } from '../owed/settle.js';

export type NotificationState =
  | 'waiting'
  | 'delivered'
  | 'superseded'
  | 'not_needed'
  | 'failed'
  | 'cancelled';
export const notificationStates: readonly NotificationState[] = [
  'waiting',
  'delivered',
  'superseded',
  'not_needed',
  'failed',
  'cancelled',
];

/** `due`: its turn comes now; `in_flight`: an attempt is under way; `retry`: at its own time; the others hold the whole client. */
export type WaitingReason =
  | 'due'
  | 'in_flight'
  | 'retry'
  | 'failing'
  | 'not_before'
  | 'paused'
  | 'suspended'
  | 'no_registration';

/** Times are ms since the epoch. */
export interface NotificationRecord {
  notificationId: string;
  clientToken: string;
  platformId: string;
  eventId: string;
  state: NotificationState;
  priority: 'live' | 'backfill';
  acceptedAt: number;
  /** Of the workflow that it shares with others, `-` where it has none; absent: it has one of its own. */
  group?: string;
  endedAt?: number;
  /** While it waits: when it may be attempted next (absent where only a change from outside helps), and why then. */
  nextAttemptAt?: number;
  waitingReason?: WaitingReason;
  /** What took its place (`superseded`) or made it unnecessary (`not_needed`). */
  by?: string;
  /** Why it `failed`: `window` or `expired`. */
  reason?: string;
  attempts: AttemptRecord[];
}

export async function getNotification(
  db: Db,
  clientToken: string,
  notificationId: string,
): Promise<NotificationRecord | undefined> {
  const [found] = await readRecords(db, clientToken, [notificationId]);
  return found;
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

/** ARGV: 2 id */
const cancel = clientScript(
  `local asset = redis.call('HGET', record(ARGV[2]), 'asset')
if not asset then return 0 end
local f = flight_of(asset)
local w = not f and waiting_of(asset) or nil
if owed_id(asset, f, w) ~= ARGV[2] then return 0 end
if f then
  f.newer = NOTHING
  write_flight(asset, f)
else stop_waiting(asset, w) end
finish(ARGV[2], 'cancelled')
return 1`,
  notificationLua,
);

/** An operator gives up a waiting notification. False when it does not wait (any more). */
export async function cancelNotification(
  db: Db,
  clientToken: string,
  notificationId: string,
): Promise<boolean> {
  return (await runScript(db, cancel, clientToken, [notificationId])) === 1;
}

/** ARGV: 2 id */
const makeDueScript = clientScript(
  `local asset = redis.call('HGET', record(ARGV[2]), 'asset')
if not asset then return 'unknown' end
local f = flight_of(asset)
local w = not f and waiting_of(asset) or nil
if owed_id(asset, f, w) ~= ARGV[2] then return 'ended' end
if w then make_due(asset, w, math.min(now, w.since)) end
return 'due'`,
  notificationLua,
);

/** A waiting notification is due at once; the caller wakes catch-up. `ended`: it is to be sent by `redeliver`. */
export async function makeDue(
  db: Db,
  clientToken: string,
  notificationId: string,
): Promise<'due' | 'ended' | 'unknown'> {
  return text(await runScript(db, makeDueScript, clientToken, [notificationId])) as
    | 'due'
    | 'ended'
    | 'unknown';
}

/** ARGV: 2 id, 3 dry run, 4 bucket, 5 field, 6 id's bytes */
const recover = clientScript(
  `local key = record(ARGV[2])
local r = redis.call('HMGET', key, 'state', 'asset', 'priority')
if r[1] ~= 'failed' then return 0 end
local asset = r[2]
local f = flight_of(asset)
if owed_id(asset, f, not f and waiting_of(asset) or nil) then return 0 end
local packed = redis.call('HGET', base .. 'known:' .. ARGV[4], ARGV[5])
if packed and string.sub(packed, 5, 20) ~= ARGV[6] then return 0 end
if ARGV[3] == '1' then return 1 end
owe(asset, ARGV[2], r[3] == 'backfill' and 'B' or 'L')
write_waiting()
redis.call('HDEL', key, 'state', 'ended_at', 'reason', 'failures', 'clock_since')
redis.call('PERSIST', key)
return 1`,
  notificationLua,
);

/**
 * What ended `failed` in that time, and was not followed by a newer notification of its asset, is owed again;
 * the caller wakes catch-up. `dryRun` only counts.
 */
export async function recoverFailed(
  db: Db,
  clientToken: string,
  range: { since: number; until: number; dryRun: boolean },
): Promise<{ count: number }> {
  let count = 0;
  // Whatever breaks off below, the sweep knows of this client.
  if (!range.dryRun) await announceClaims(db, [clientToken]);
  const ids = await db.redis.zrange(db.client(clientToken).notifications, '0', '-1');
  for (let i = 0; i < ids.length; i += 200) {
    const failed = await failedAmong(db, clientToken, ids.slice(i, i + 200));
    for (const found of await readRecords(db, clientToken, failed)) {
      if (found?.state !== 'failed' || found.endedAt === undefined) continue;
      if (found.endedAt < range.since || found.endedAt > range.until) continue;
      const slot = assetSlot(found.platformId);
      count += Number(
        await runScript(db, recover, clientToken, [
          found.notificationId,
          range.dryRun ? 1 : 0,
          slot.bucket,
          slot.field,
          idToBytes(found.notificationId),
        ]),
      );
    }
  }
  return { count };
}

/** Records in the order of the ids; undefined where there is none (any more). */
export async function readRecords(
  db: Db,
  clientToken: string,
  ids: readonly string[],
): Promise<(NotificationRecord | undefined)[]> {
  const keys = db.client(clientToken);
  const commands = db.redis.pipeline();
  for (const id of ids) commands.hgetall(keys.notification(id));
  const answers = (await runPipeline(commands)) as Record<string, string>[];
  const records = ids.map((id, i) => recordOf(clientToken, id, answers[i] ?? {}));
  await tellWhenNext(
    db,
    clientToken,
    records.filter((record): record is NotificationRecord => record?.state === 'waiting'),
  );
  return records;
}

/** Those that have failed. A record may hold many attempts: it is not read to be thrown away. */
async function failedAmong(db: Db, clientToken: string, ids: readonly string[]): Promise<string[]> {
  const commands = db.redis.pipeline();
  for (const id of ids) commands.hget(db.client(clientToken).notification(id), 'state');
  const states = await runPipeline(commands);
  return ids.filter((_, i) => states[i] === 'failed');
}

/** Adds to what waits when it is attempted next, and why then. */
async function tellWhenNext(db: Db, clientToken: string, waiting: NotificationRecord[]): Promise<void> {
  if (waiting.length === 0) return;
  const keys = db.client(clientToken);
  const commands = db.redis
    .pipeline()
    .hexists(keys.registration, 'url')
    .hmget(keys.endpoint, 'state', 'paused', 'held', 'not_before', 'probe_at');
  for (const { platformId } of waiting) {
    commands.zscore(keys.dueLive, platformId).zscore(keys.dueBackfill, platformId);
  }
  const [url, endpoint, ...scores] = await runPipeline(commands);
  const [state, paused, held, notBefore, probeAt] = endpoint as (string | null)[];
  const now = Date.now() + db.clockOffsetMs();
  const next = (dueAt: number): [WaitingReason, number?] => {
    if (url !== 1) return ['no_registration'];
    if (paused === '1' || held === '1') return ['paused'];
    if (state === 'suspended') return ['suspended'];
    const notBeforeAt = Number(notBefore ?? 0);
    if (state === 'failing') return ['failing', Math.max(now, Number(probeAt ?? 0), notBeforeAt)];
    if (notBeforeAt > Math.max(now, dueAt)) return ['not_before', notBeforeAt];
    return dueAt > now ? ['retry', dueAt] : ['due', now];
  };
  waiting.forEach((record, i) => {
    const score = scores[2 * i] ?? scores[2 * i + 1];
    if (typeof score !== 'string') {
      record.waitingReason = 'in_flight';
      return;
    }
    const [reason, at] = next(Number(score));
    record.waitingReason = reason;
    if (at !== undefined) record.nextAttemptAt = at;
  });
}

function recordOf(
  clientToken: string,
  id: string,
  f: Record<string, string>,
): NotificationRecord | undefined {
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
    attempts: f.attempts ? f.attempts.split('\n').map((line) => JSON.parse(line) as AttemptRecord) : [],
  };
}
