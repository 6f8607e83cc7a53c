/** Which clients are owed something, and whether anybody works on it. */
import type { Redis } from 'ioredis';
import type { Db } from '../connection/db.js';
import { clientScript, runScript } from '../connection/script.js';
import { endpointLua } from '../records/endpointLua.js';
import { notificationLua } from './notificationLua.js';

/** Long enough that a claim which announced itself has happened or never will. */
const unclaimedMs = 600_000;

/** So long after it was announced a client is known to be in the index: none is taken off before `unclaimedMs`. */
const announcedMs = unclaimedMs / 2;

/**
 * Clients announced by this process since its connection was made, with when (ms): the longest ago first, and none for
 * longer than it counts.
 */
const announced = new WeakMap<Redis, Map<string, number>>();

function announcedBy(redis: Redis): Map<string, number> {
  let clients = announced.get(redis);
  if (clients === undefined) {
    clients = new Map();
    announced.set(redis, clients);
    // What answers after a reconnect may be a server that has lost its last second.
    redis.on('close', () => announced.delete(redis));
  }
  return clients;
}

/**
 * Announces claims: to be written before the claim itself, so that no owed client is ever missing from the index. A
 * client that was announced lately is not written again. @returns undefined where nothing needs to be written
 */
export function announceClaims(db: Db, clientTokens: Iterable<string>): Promise<void> | undefined {
  const at = Date.now() + db.clockOffsetMs();
  const known = announcedBy(db.redis);
  const missing = new Set<string>();
  for (const clientToken of clientTokens) {
    if (at - (known.get(clientToken) ?? Number.NEGATIVE_INFINITY) > announcedMs) missing.add(clientToken);
  }
  if (missing.size === 0) return undefined;
  return db.redis.zadd(db.global.owedClients, ...[...missing].flatMap((token) => [at, token])).then(() => {
    for (const clientToken of missing) {
      known.delete(clientToken);
      known.set(clientToken, at);
    }
    for (const [clientToken, since] of known) {
      if (at - since <= announcedMs) break;
      known.delete(clientToken);
    }
  });
}

/** There is no such client: whoever makes up client tokens is not remembered. */
export function forgetAnnouncement(db: Db, clientToken: string): void {
  announcedBy(db.redis).delete(clientToken);
}

/** Every client that may be owed something. */
export async function* owedClients(db: Db): AsyncGenerator<string[]> {
  let cursor = '0';
  do {
    const [next, flat] = await db.redis.zscan(db.global.owedClients, cursor, 'COUNT', 500);
    cursor = next;
    const page: string[] = [];
    for (let i = 0; i < flat.length; i += 2) page.push(flat[i] as string);
    if (page.length > 0) yield page;
  } while (cursor !== '0');
}

/** Assets owed, over all clients. */
export async function owedInAll(db: Db): Promise<number> {
  let sum = 0;
  for await (const page of owedClients(db)) {
    const pipeline = db.redis.pipeline();
    for (const clientToken of page) {
      pipeline.hlen(db.client(clientToken).owed).hlen(db.client(clientToken).flight);
    }
    for (const [err, owed] of (await pipeline.exec()) ?? []) {
      if (err) throw err;
      sum += Number(owed);
    }
  }
  return sum;
}

/** Whether the sweep knows that this client may be owed something. */
export async function isIndexed(db: Db, clientToken: string): Promise<boolean> {
  return (await db.redis.zscore(db.global.owedClients, clientToken)) !== null;
}

/** Takes a client that is owed nothing off the index, unless a claim announced itself lately. */
export async function forgetOwedClient(db: Db, clientToken: string): Promise<void> {
  const before = Date.now() + db.clockOffsetMs() - unclaimedMs;
  await db.redis.eval(
    `local at = redis.call('ZSCORE', KEYS[1], ARGV[1])
     if at and tonumber(at) < tonumber(ARGV[2]) then return redis.call('ZREM', KEYS[1], ARGV[1]) end
     return 0`,
    1,
    db.global.owedClients,
    clientToken,
    before,
  );
}

export interface OwedOverview {
  owed: number;
  /** How long the earliest possible attempt is overdue, ms; negative: it lies ahead. */
  overdueMs: number;
  /** Since catch-up last planned for this client, ms; -1: never. */
  plannedMsAgo: number;
  inFlight: number;
  /** How long the oldest has waited, ms. */
  oldestMs: number;
  /** Each asset that waits has one time since when it is owed and one at which it is due, and nothing else has one. */
  isConsistent: boolean;
}

/** ARGV: 2 retention ms */
const overview = clientScript(
  `
-- Of the first release: its leases stand beside what is owed.
redis.call('UNLINK', base .. 'in-flight')
land_expired()
write_waiting()
local in_flight, owed = in_flight(), owed_count()
local waiting = redis.call('HLEN', base .. 'owed')
local consistent = waiting == redis.call('ZCARD', base .. 'owed-since')
  and waiting == redis.call('ZCARD', base .. 'due:live') + redis.call('ZCARD', base .. 'due:backfill') and 1 or 0
if owed == 0 then return {0, 0, -1, in_flight, 0, consistent} end
local next_at = math.huge
for _, lane in ipairs({'due:live', 'due:backfill'}) do
  local first = redis.call('ZRANGE', base .. lane, 0, 0, 'WITHSCORES')
  if first[2] then next_at = math.min(next_at, tonumber(first[2])) end
end
-- All of it is in flight: the first lease that ends is what there is to wait for.
if next_at == math.huge then return {owed, -1, 0, in_flight, 0, consistent} end
local oldest = tonumber(redis.call('ZRANGE', base .. 'owed-since', 0, 0, 'WITHSCORES')[2] or now)
local expires = oldest + tonumber(ARGV[2])
if redis.call('HEXISTS', base .. 'registration', 'url') == 0 or field('paused') == '1' or field('held') == '1'
  or state() == 'suspended' then next_at = expires end
next_at = math.max(next_at, number('not_before'))
if state() == 'failing' then next_at = math.max(next_at, number('probe_at')) end
next_at = math.min(next_at, expires)
local planned = number('planned_at')
return {owed, now - next_at, planned > 0 and now - planned or -1, in_flight, now - oldest, consistent}
`,
  notificationLua,
  endpointLua,
);

export async function owedOverview(db: Db, clientToken: string, retentionMs: number): Promise<OwedOverview> {
  const answer = (await runScript(db, overview, clientToken, [retentionMs])) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const [owed, overdueMs, plannedMsAgo, inFlight, oldestMs, consistent] = answer;
  return { owed, overdueMs, plannedMsAgo, inFlight, oldestMs, isConsistent: consistent === 1 };
}

/** ARGV: 2 ms from now */
const wake = clientScript(
  `if redis.call('EXISTS', base .. 'owed', base .. 'flight') == 0 then return 0 end
return wake_by(now + tonumber(ARGV[2]))`,
  endpointLua,
);

/** Whether catch-up must be woken for something due in `inMs`; if so, it is expected awake by then from now on. */
export async function mustWakeCatchUp(db: Db, clientToken: string, inMs: number): Promise<boolean> {
  return (await runScript(db, wake, clientToken, [Math.max(0, Math.round(inMs))])) === 1;
}

/** After a wake-up that failed: the next one is sent again. */
export async function forgetWakeUp(db: Db, clientToken: string): Promise<void> {
  await db.redis.hdel(db.client(clientToken).endpoint, 'catch_up_until');
}
