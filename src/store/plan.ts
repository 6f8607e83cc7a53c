import type { Db } from './db.js';
import { endpointLua } from './endpointLua.js';
import { notificationLua } from './notificationLua.js';
import { clientScript, runScript, text } from './script.js';

export type WaitReason =
  | 'no_registration'
  | 'paused'
  | 'suspended'
  | 'failing'
  | 'not_before'
  | 'in_flight'
  | 'retry';

export interface Plan {
  /** Assets owed. */
  owed: number;
  /** Since when the oldest is owed, ms; 0 when nothing is. */
  oldestAt: number;
  /** What may be attempted now, oldest first; `probe` where the endpoint is failing. */
  mode: 'drain' | 'probe';
  items: { platformId: string; notificationId: string }[];
  /** With no items: when to look again, and why not before. */
  inMs: number;
  reason: WaitReason;
  /** Notifications that ended as failed by this call, because they had been owed for too long. */
  expired: number;
}

/**
 * What catch-up does next for a client. Where it is nothing, the time it sleeps until is written in the same
 * moment, so that a claim in between knows whether to wake it (DESIGN rule 6). Ends what is owed for too long.
 *
 * ARGV: 2 how many, 3 retention ms
 */
const plan = clientScript(
  `
local expired = 0
for _, asset in ipairs(redis.call('ZRANGEBYSCORE', base .. 'owed-since', '-inf', now - tonumber(ARGV[3]), 'LIMIT', 0, 200)) do
  if not lease_end(asset) then
    local id = redis.call('HGET', base .. 'owed', asset)
    no_longer_owed(asset)
    if id then finish(id, 'failed', nil, 'expired') end
    expired = expired + 1
  end
end
local owed = redis.call('HLEN', base .. 'owed')
if owed == 0 then return {0, 0, 'drain', {}, -1, 'retry', expired} end
local first = redis.call('ZRANGE', base .. 'owed-since', 0, 0, 'WITHSCORES')
local oldest = tonumber(first[2])
redis.call('HSET', E, 'planned_at', now)
local function sleep(until_at, reason)
  redis.call('HSET', E, 'catch_up_until', until_at)
  return {owed, oldest, 'drain', {}, math.max(until_at - now, 1), reason, expired}
end
local function work(mode, assets)
  local ids = redis.call('HMGET', base .. 'owed', unpack(assets))
  local items = {}
  for i, asset in ipairs(assets) do
    items[#items + 1] = asset
    items[#items + 1] = ids[i]
  end
  return {owed, oldest, mode, items, 0, 'retry', expired}
end
-- What has expired while a POST of it is under way ends with that POST, or with its lease.
local patience = math.max(oldest + tonumber(ARGV[3]), lease_end(first[1]) or 0)
if redis.call('HEXISTS', base .. 'registration', 'url') == 0 then return sleep(patience, 'no_registration') end
if field('paused') == '1' or field('held') == '1' then return sleep(patience, 'paused') end
if state() == 'suspended' then return sleep(patience, 'suspended') end
if number('not_before') > now then return sleep(number('not_before'), 'not_before') end
local function head(lane)
  local first = redis.call('ZRANGE', base .. lane, 0, 0, 'WITHSCORES')
  return first[1], tonumber(first[2])
end
if state() == 'failing' then
  if number('probe_at') > now then return sleep(number('probe_at'), 'failing') end
  local lease = probe_end(field('probe'))
  if lease then return sleep(lease, 'failing') end
  -- Each probe takes another asset: a failed one goes behind the others.
  for _, lane in ipairs({'due:live', 'due:backfill'}) do
    for _, asset in ipairs(redis.call('ZRANGE', base .. lane, 0, 49)) do
      if not lease_end(asset) then return work('probe', {asset}) end
    end
  end
  return sleep(now + 1000, 'in_flight')
end
local wanted = tonumber(ARGV[2])
local assets = redis.call('ZRANGEBYSCORE', base .. 'due:live', '-inf', now, 'LIMIT', 0, wanted)
if #assets < wanted then
  for _, asset in ipairs(redis.call('ZRANGEBYSCORE', base .. 'due:backfill', '-inf', now, 'LIMIT', 0, wanted - #assets)) do
    assets[#assets + 1] = asset
  end
end
if #assets > 0 then return work('drain', assets) end
local _, live = head('due:live')
local _, backfill = head('due:backfill')
local next_at = math.min(live or math.huge, backfill or math.huge)
if next_at == math.huge then next_at = now + 1000 end
return sleep(next_at, redis.call('ZCARD', base .. 'in-flight') > 0 and 'in_flight' or 'retry')
`,
  endpointLua,
  notificationLua,
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
  ];
  const items: Plan['items'] = [];
  for (let i = 0; i + 1 < answer[3].length; i += 2) {
    items.push({ platformId: text(answer[3][i]), notificationId: text(answer[3][i + 1]) });
  }
  return {
    owed: answer[0],
    oldestAt: answer[1],
    mode: text(answer[2]) as 'drain' | 'probe',
    items,
    inMs: answer[4],
    reason: text(answer[5]) as WaitReason,
    expired: answer[6],
  };
}
