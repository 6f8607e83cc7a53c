-- Plans catch-up: answers its next attempts for a client, and ends notifications owed for too long. If there is nothing
-- to do, it also notes until when catch-up sleeps, so that a later claim knows whether to wake it.
-- include: client, notification, endpoint
-- KEYS: the client's base
-- Arguments: wanted (how many at most), retention_ms
-- Answer: {owed, oldest owed since, mode, {asset, id, lane of each in turn}, in ms, reason, expired, the client's own bound}
-- Repeat: safe: an expired notification ends once, and the rest is read again

local wanted, retention_ms = tonumber(ARGV[2]), tonumber(ARGV[3])
land_expired()
write_waiting()
local expired = 0
local too_old = redis.call('ZRANGEBYSCORE', base .. 'owed-since', '-inf', now - retention_ms, 'LIMIT', 0, 200)
for _, asset in ipairs(too_old) do
  local w = waiting_of(asset)
  if w then
    stop_waiting(asset, w)
    finish(w.id, 'failed', nil, 'expired')
  else redis.call('ZREM', base .. 'owed-since', asset) end
  expired = expired + 1
end
-- Attempts under way settle their own assets.
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
-- live: how many of the assets, from the first on, are live
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
local patience = oldest + retention_ms
if redis.call('HEXISTS', base .. 'registration', 'url') == 0 then return sleep(patience, 'no_registration') end
if field('paused') == '1' or field('held') == '1' then return sleep(patience, 'paused') end
if state() == 'suspended' then return sleep(patience, 'suspended') end
if number('not_before') > now then return sleep(number('not_before'), 'not_before') end
if state() == 'failing' then
  if number('probe_at') > now then return sleep(number('probe_at'), 'failing') end
  local lease = probe_end(field('probe'))
  if lease then return sleep(lease, 'failing') end
  -- Each probe takes another asset: after a failure the asset goes behind the others.
  for i, lane in ipairs({'due:live', 'due:backfill'}) do
    local first = redis.call('ZRANGE', base .. lane, 0, 0)
    if first[1] then return work('probe', first, 2 - i, -1) end
  end
end
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
