/**
 * What a deleted client leaves behind goes in bounded steps, each safe to repeat: none holds up Redis for others, and
 * where one breaks off the sweep goes on. What is owed ends as `cancelled`; what is known goes at once; what has a time
 * of its own (records, decisions) or is small (their list, changes of state) goes 14 days later at most.
 */
import type { Db } from '../connection/db.js';
import { runPipeline } from '../connection/pipeline.js';
import { clientScript, runScript } from '../connection/script.js';
import { notificationLua } from '../owed/notificationLua.js';
import { resetRegistration } from './registrations.js';

/** As long as the record of a notification that has ended. */
const keptSeconds = 14 * 86_400;
/** Keys of one step. */
const atOnce = 500;
/** Assets of one script: some milliseconds of a busy Redis. */
const assetsAtOnce = 100;
/** `assetSlot` in ids.ts. */
const buckets = 0x4000;

/** To be called before a client is marked as deleted: from then on the sweep clears what it leaves behind. */
export async function announceDeletion(db: Db, clientToken: string): Promise<void> {
  await db.redis.zadd(db.global.deletedClients, Date.now() + db.clockOffsetMs(), clientToken);
}

/** A client that an earlier release deleted left everything behind. */
export async function announceOldDeletion(db: Db, clientToken: string): Promise<void> {
  const [deleted, cleared] = await db.redis.hmget(db.client(clientToken).client, 'deleted', 'cleared');
  if (!deleted || cleared) return;
  await db.redis.zadd(db.global.deletedClients, 'NX', Date.now() + db.clockOffsetMs(), clientToken);
}

/** Clients whose deletion is under way, the first of them; `at`: ms. */
export async function deletionsUnderWay(
  db: Db,
  limit: number,
): Promise<{ clientToken: string; at: number }[]> {
  const flat = await db.redis.zrange(db.global.deletedClients, '0', String(limit - 1), 'WITHSCORES');
  return flat.flatMap((clientToken, i) => (i % 2 === 0 ? { clientToken, at: Number(flat[i + 1]) } : []));
}

/** Nothing writes for it any more. */
export async function endDeletion(db: Db, clientToken: string): Promise<void> {
  const { client } = db.client(clientToken);
  if (await db.redis.hexists(client, 'deleted')) await db.redis.hset(client, 'cleared', 1);
  await db.redis.zrem(db.global.deletedClients, clientToken);
}

/**
 * Clears what a deleted client has left behind; changes nothing for one that is not deleted.
 * @param onStep called before each step
 * @returns how many notifications were still owed, and are cancelled
 */
export async function clearDeletedClient(
  db: Db,
  clientToken: string,
  onStep: () => void = () => undefined,
): Promise<{ cancelled: number }> {
  const keys = db.client(clientToken);
  if (!(await db.redis.hexists(keys.client, 'deleted'))) return { cancelled: 0 };
  await resetRegistration(db, clientToken);
  await db.redis.unlink(keys.signingSecrets);
  const cancelled = await repeat(db, cancelOwed, clientToken, onStep);
  await repeat(db, unlinkBeside, clientToken, onStep);
  for (let from = 0; from < buckets; from += atOnce) {
    onStep();
    const some = Array.from({ length: Math.min(atOnce, buckets - from) }, (_, i) => (from + i).toString(36));
    await db.redis.unlink(...some.map(keys.known));
  }
  await expireRecords(db, clientToken, onStep);
  const expiring = db.redis.pipeline();
  for (const key of [keys.notifications, keys.stateChanges, keys.endpoint]) {
    expiring.expire(key, keptSeconds, 'NX');
  }
  await runPipeline(expiring);
  return { cancelled };
}

/** @returns the sum of what the steps did */
async function repeat(
  db: Db,
  step: typeof cancelOwed,
  clientToken: string,
  onStep: () => void,
): Promise<number> {
  for (let sum = 0; ; ) {
    onStep();
    const [done, hasMore] = (await runScript(db, step, clientToken, [assetsAtOnce])) as [number, number];
    sum += done;
    if (hasMore === 0) return sum;
  }
}

/** ARGV: 2 how many. Answers {cancelled, whether there is more}. An attempt under way settles nothing any more. */
const cancelOwed = clientScript(
  `
local cancelled = 0
local function cancel(id)
  finish(id, 'cancelled', nil, 'client_deleted')
  cancelled = cancelled + 1
end
for _, asset in ipairs(redis.call('HKEYS', base .. 'flight')) do
  local f = flight_of(asset)
  local id = owed_id(asset, f)
  if id then cancel(id) end
  f.newer = NOTHING
  if f.lease > now then write_flight(asset, f) else redis.call('HDEL', base .. 'flight', asset) end
end
local owed, assets = redis.call('HRANDFIELD', base .. 'owed', ARGV[2], 'WITHVALUES'), {}
for i = 1, #owed, 2 do
  assets[#assets + 1] = owed[i]
  cancel(owed[i + 1])
end
if #assets > 0 then
  redis.call('HDEL', base .. 'owed', unpack(assets))
  for _, key in ipairs({'owed-since', 'due:live', 'due:backfill'}) do redis.call('ZREM', base .. key, unpack(assets)) end
end
if redis.call('EXISTS', base .. 'owed') == 1 then return {cancelled, 1} end
redis.call('UNLINK', base .. 'owed-since', base .. 'due:live', base .. 'due:backfill', base .. 'resends')
return {cancelled, 0}
`,
  notificationLua,
);

/** ARGV: 2 how many. Answers {unlinked, whether there is more}. */
const unlinkBeside = clientScript(`
local some = redis.call('SPOP', base .. 'known-beside', ARGV[2])
for _, name in ipairs(some) do redis.call('UNLINK', base .. 'known:' .. name) end
return {#some, redis.call('EXISTS', base .. 'known-beside')}
`);

/** Those that have ended have a time already. */
async function expireRecords(db: Db, clientToken: string, onStep: () => void): Promise<void> {
  const keys = db.client(clientToken);
  for (let from = 0; ; from += atOnce) {
    onStep();
    const ids = await db.redis.zrange(keys.notifications, String(from), String(from + atOnce - 1));
    if (ids.length === 0) return;
    const expiring = db.redis.pipeline();
    for (const id of ids) expiring.expire(keys.notification(id), keptSeconds, 'NX');
    await runPipeline(expiring);
  }
}
