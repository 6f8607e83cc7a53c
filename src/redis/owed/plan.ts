import type { Db } from '../connection/db.js';
import { clientScript, runScript, text } from '../connection/script.js';
import { endpointLua } from '../records/endpointLua.js';
import { notificationLua } from './notificationLua.js';

export type WaitReason =
  | 'no_registration'
  | 'paused'
  | 'suspended'
  | 'failing'
  | 'not_before'
  | 'in_flight'
  | 'retry';

export interface Plan {
  /** Assets owed that no attempt holds. */
  owed: number;
  /** Since when the oldest is owed, ms; 0 when nothing is. */
  oldestAt: number;
  /** What may be attempted now, oldest first; `probe` where the endpoint is failing. */
  mode: 'drain' | 'probe';
  items: { platformId: string; notificationId: string; priority: 'live' | 'backfill' }[];
  /** With no items: when to look again, and why not before. With items: until more is due; -1 where that is not known. */
  inMs: number;
  reason: WaitReason;
  /** The client's own bound of attempts at once. */
  maxInFlight?: number;
  /** Notifications that ended as failed by this call, because they had been owed for too long. */
  expired: number;
}

/**
 * What catch-up does next for a client. Where it is nothing, the time it sleeps until is written in the same
 * moment, so that a claim in between knows whether to wake it. Ends what is owed for too long.
 *
 * ARGV: 2 how many, 3 retention ms
 */
const plan = clientScript(
  `
land_expired()
write_waiting()
local expired = 0
for _, asset in ipairs(redis.call('ZRANGEBYSCORE', base .. 'owed-since', '-inf', now - tonumber(ARGV[3]), 'LIMIT', 0, 200)) do
  local w = waiting_of(asset)
  if w then
    stop_waiting(asset, w)
    finish(w.id, 'failed', nil, 'expired')
  else redis.call('ZREM', base .. 'owed-since', asset) end
  expired = expired + 1
end
-- What is in flight is its attempt's.
local owed = redis.call('HLEN', base .. 'owed')
if owed == 0 then
  redis.call('HDEL', E, 'catch_up_until')
  return {0, 0, 'drain', {}, -1, 'retry', expired}
end
redis.call('HSET', E, 'planned_at', now)
local oldest = tonumber(redis.call('ZRANGE', base .. 'owed-since', 0, 0, 'WITHSCORES')[2] or now)
local function sleep(until_at, reason)
  redis.call('HSET', E, 'catch_up_until', until_at)
  return {owed, oldest, 'drain', {}, math.max(until_at - now, 1), reason, expired}
end
-- The first of the assets are live, so many.
local function work(mode, assets, live, in_ms)
  local ids = redis.call('HMGET', base .. 'owed', unpack(assets))
  local items = {}
  for i, asset in ipairs(assets) do
    items[#items + 1] = asset
    items[#items + 1] = ids[i]
    items[#items + 1] = i <= live and 'L' or 'B'
  end
  return {owed, oldest, mode, items, in_ms, 'retry', expired, redis.call('HGET', base .. 'client', 'max_in_flight')}
end
local patience = oldest + tonumber(ARGV[3])
if redis.call('HEXISTS', base .. 'registration', 'url') == 0 then return sleep(patience, 'no_registration') end
if field('paused') == '1' or field('held') == '1' then return sleep(patience, 'paused') end
if state() == 'suspended' then return sleep(patience, 'suspended') end
if number('not_before') > now then return sleep(number('not_before'), 'not_before') end
if state() == 'failing' then
  if number('probe_at') > now then return sleep(number('probe_at'), 'failing') end
  local lease = probe_end(field('probe'))
  if lease then return sleep(lease, 'failing') end
  -- Each probe takes another asset: a failed one goes behind the others.
  local live = redis.call('ZRANGE', base .. 'due:live', 0, 0)
  if live[1] then return work('probe', live, 1, -1) end
  local backfill = redis.call('ZRANGE', base .. 'due:backfill', 0, 0)
  if backfill[1] then return work('probe', backfill, 0, -1) end
  return sleep(now + 1000, 'in_flight')
end
local wanted = tonumber(ARGV[2])
local assets = redis.call('ZRANGEBYSCORE', base .. 'due:live', '-inf', now, 'LIMIT', 0, wanted)
local live = #assets
if live < wanted then
  for _, asset in ipairs(redis.call('ZRANGEBYSCORE', base .. 'due:backfill', '-inf', now, 'LIMIT', 0, wanted - live)) do
    assets[#assets + 1] = asset
  end
end
if #assets == wanted then return work('drain', assets, live, -1) end
local next_at = math.huge
for _, lane in ipairs({'due:live', 'due:backfill'}) do
  local later = redis.call('ZRANGEBYSCORE', base .. lane, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  next_at = math.min(next_at, tonumber(later[2]) or math.huge)
end
if #assets > 0 then return work('drain', assets, live, next_at < math.huge and next_at - now or -1) end
if next_at == math.huge then next_at = now + 1000 end
return sleep(next_at, in_flight() > 0 and 'in_flight' or 'retry')
`,
  notificationLua,
  endpointLua,
);

export async function planCatchUp(
  db: Db,
  clientToken: string,
  options: { limit: number; retentionMs: number },
): Promise<Plan> {
  const answer = (await runScript(db, plan, clientToken, [options.limit, options.retentionMs])) as [
    number,
    number,
    Buffer,
    Buffer[],
    number,
    Buffer,
    number,
    Buffer | null | undefined,
  ];
  const items: Plan['items'] = [];
  for (let i = 0; i + 2 < answer[3].length; i += 3) {
    items.push({
      platformId: text(answer[3][i]),
      notificationId: text(answer[3][i + 1]),
      priority: text(answer[3][i + 2]) === 'B' ? 'backfill' : 'live',
    });
  }
  return {
    owed: answer[0],
    oldestAt: answer[1],
    mode: text(answer[2]) as 'drain' | 'probe',
    items,
    inMs: answer[4],
    reason: text(answer[5]) as WaitReason,
    expired: answer[6],
    ...(answer[7] ? { maxInFlight: Number(text(answer[7])) } : {}),
  };
}
