-- Applies a run's hold at this client to some of its owed notifications: ends them as cancelled, parks them, or makes
-- parked ones due. A notification with an attempt in flight is left to the end of the attempt.
-- include: client, endpoint, notification
-- KEYS: the client's base
-- Arguments: run, cursor, count
-- Answer: {next cursor ('0': no more), cancelled, due (made due, or owed again), in flight}
-- Repeat: safe: it applies the present hold

local run, cursor, count = ARGV[2], ARGV[3], ARGV[4]
-- Returns the newest superseded notification that is owed again if this one is cancelled; nil if there is none.
-- keeps: see add_to_run in claim.lua
local function still_to_tell(keeps)
  for line in string.gmatch(keeps, '[^\n]+') do
    local id, accepted_at, event, its_run = string.match(line, '^(%S+) (%S+) (%S+) ?(%S*)$')
    local state = redis.call('HGET', record(id), 'state')
    -- Redelivered meanwhile.
    if state and state ~= 'superseded' then return nil end
    local is_cancelled = its_run ~= '' and redis.call('HGET', base .. 'run:' .. its_run, 'hold') == 'cancelled'
    if not is_cancelled then return {id = id, accepted_at = accepted_at, event = event, run = its_run} end
  end
end
-- Makes a superseded notification owed again; its record may be gone (`trim_list`).
local function revive(asset, back)
  redis.call('HDEL', record(back.id), 'state', 'ended_at', 'by', 'reason')
  redis.call('HSET', record(back.id), 'asset', asset, 'event', back.event, 'accepted_at', back.accepted_at)
  redis.call('PERSIST', record(back.id))
  keep_beside(asset, back.id)
  if back.run == '' then return end
  redis.call('HSET', record(back.id), 'run', back.run)
  redis.call('HINCRBY', base .. 'run:' .. back.run, 'superseded', -1)
  redis.call('SADD', base .. 'run-owed:' .. back.run, back.id)
  redis.call('PERSIST', base .. 'run:' .. back.run)
  redis.call('PERSIST', base .. 'run-known:' .. back.run)
end

local due, in_flight = 0, 0
-- Written together at the end: the ended notifications, and the assets that are no longer owed.
local ended, unowed = {}, {}
-- Ends it; a notification that it superseded may be owed again instead.
local function cancel(asset, id, f, keeps)
  close(id, {}, 'cancelled', nil, 'run_cancelled')
  ended[#ended + 1] = id
  local back = keeps and still_to_tell(keeps)
  if back then
    revive(asset, back)
    due = due + 1
  end
  if f then
    f.newer = not back and NOTHING or back.id ~= f.id and back.id or nil
    write_flight(asset, f)
  elseif back then
    local w = waiting_of(asset)
    stop_waiting(asset, w)
    wait(asset, back.id, w.since, w.lane, math.min(now, w.since))
  else
    to_wait[asset] = nil
    unowed[#unowed + 1] = asset
  end
end
local function park_or_wake(asset, id, hold)
  local w = waiting_of(asset)
  if hold == 'paused' then make_due(asset, w, PARKED)
  elseif w.due >= PARKED then
    make_due(asset, w, math.min(now, w.since))
    -- Its retry window starts again.
    redis.call('HDEL', record(id), 'clock_since')
    due = due + 1
  end
end
is_empty.flight = redis.call('HLEN', base .. 'flight') == 0
local hold = redis.call('HGET', base .. 'run:' .. run, 'hold')
local page = redis.call('SSCAN', base .. 'run-owed:' .. run, cursor, 'COUNT', count)
for _, id in ipairs(page[2]) do
  local asset, keeps = unpack(redis.call('HMGET', record(id), 'asset', 'keeps'))
  local f = asset and not to_wait[asset] and flight_of(asset) or nil
  if f and f.lease <= now then
    land(asset, f, math.min(now, tonumber(f.since)))
    f = nil
  end
  local owed = asset and (f and owed_id(asset, f) or to_wait[asset] and to_wait[asset].id)
  if asset and not f and not owed then owed = redis.call('HGET', base .. 'owed', asset) end
  if owed ~= id then redis.call('SREM', base .. 'run-owed:' .. run, id)
  elseif f and f.id == id then in_flight = in_flight + 1
  elseif hold == 'cancelled' then cancel(asset, id, f, keeps)
  elseif not f then park_or_wake(asset, id, hold) end
end
if #unowed > 0 then
  redis.call('HDEL', base .. 'owed', unpack(unowed))
  for _, key in ipairs({'owed-since', 'due:live', 'due:backfill'}) do redis.call('ZREM', base .. key, unpack(unowed)) end
end
if #ended > 0 then
  redis.call('SREM', base .. 'run-owed:' .. run, unpack(ended))
  redis.call('HINCRBY', base .. 'run:' .. run, 'cancelled', #ended)
  age_run(run)
end
write_waiting()
return {page[1], #ended, due, in_flight}
