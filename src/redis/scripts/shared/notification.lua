-- Writes notifications' records, and moves owed assets between two places. Each owed asset is in exactly one of them:
--   flight   while an attempt holds it: `<token> <lease end> <owed since> <L or B> <id> [<newer id>]`. A newer
--            notification of the asset waits there for the attempt's end; `!` instead: the asset is no longer owed.
--   waiting  otherwise: in `owed`, in `owed-since` and in one of `due:live` and `due:backfill`.
-- include: client

-- As text, because Lua would format a number in every call.
local KEEP_SECONDS = '1209600'
local NOTHING = '!'
local LANES = {L = 'due:live', B = 'due:backfill'}
local function record(id) return base .. 'notification:' .. id end
-- Returns the state of a record; nil if there is none.
local function state_of(id)
  local r = redis.call('HMGET', record(id), 'asset', 'state')
  return r[1] and (r[2] or 'waiting') or nil
end
-- Ends a record, and writes `fields` (alternating names and values) in the same write.
local function close(id, fields, state, by, reason)
  local key, n = record(id), #fields
  fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = 'state', state, 'ended_at', now
  if by then fields[n + 5], fields[n + 6] = 'by', by end
  if reason then fields[#fields + 1], fields[#fields + 2] = 'reason', reason end
  redis.call('HSET', key, unpack(fields))
  redis.call('EXPIRE', key, KEEP_SECONDS)
end
-- Makes an ended record wait again.
local function reopen(id)
  redis.call('HDEL', record(id), 'state', 'ended_at', 'reason', 'failures', 'clock_since')
  redis.call('PERSIST', record(id))
end
local function finish(id, state, by, reason)
  if redis.call('EXISTS', record(id)) == 1 then close(id, {}, state, by, reason) end
end
-- Lists a notification; `trim_list` must follow in the same script.
local function list(id, accepted_at) redis.call('ZADD', base .. 'notifications', accepted_at, id) end
-- Keeps the newest 10,000; a record that is still owed stays.
local function trim_list()
  local log = base .. 'notifications'
  local over = redis.call('ZCARD', log) - 10000
  if over <= 0 then return end
  local out = redis.call('ZPOPMIN', log, over)
  for i = 1, #out, 2 do
    local state = redis.call('HGET', record(out[i]), 'state')
    if state and state ~= 'waiting' then redis.call('DEL', record(out[i])) end
  end
end

-- A script that knows that nothing is in flight, or that nothing waits, notes it here and saves a read for each asset.
local is_empty = {}
-- Returns the entry of an asset's attempt; nil if there is none.
local function flight_of(asset)
  if is_empty.flight then return nil end
  local packed = redis.call('HGET', base .. 'flight', asset)
  if not packed then return nil end
  local token, lease, since, lane, id, newer = string.match(packed, '^(%S+) (%d+) (%d+) (%u) (%S+) ?(%S*)$')
  return {token = token, lease = tonumber(lease), since = since, lane = lane, id = id, newer = newer ~= '' and newer or nil}
end
local function write_flight(asset, f)
  is_empty.flight = false
  redis.call('HSET', base .. 'flight', asset, string.format('%s %d %d %s %s%s', f.token, f.lease, f.since, f.lane, f.id,
    f.newer and ' ' .. f.newer or ''))
end

-- Assets that begin to wait in this script. `write_waiting` writes them, except those taken before it.
local to_wait = {}
local function wait(asset, id, since, lane, due)
  to_wait[asset] = {id = id, since = tonumber(since), lane = lane, due = due}
end
local function write_waiting()
  local owed, since, due = {}, {}, {L = {}, B = {}}
  local function flush()
    if #owed == 0 then return end
    redis.call('HSET', base .. 'owed', unpack(owed))
    redis.call('ZADD', base .. 'owed-since', unpack(since))
    for lane, entries in pairs(due) do
      if #entries > 0 then redis.call('ZADD', base .. LANES[lane], unpack(entries)) end
    end
    owed, since, due = {}, {}, {L = {}, B = {}}
  end
  for asset, w in pairs(to_wait) do
    local n, lane = #owed, due[w.lane]
    owed[n + 1], owed[n + 2] = asset, w.id
    since[n + 1], since[n + 2] = w.since, asset
    lane[#lane + 1], lane[#lane + 2] = w.due, asset
    if n > 2000 then flush() end
  end
  flush()
  to_wait, is_empty.waiting = {}, false
end
local function lane_of(asset)
  return redis.call('ZSCORE', base .. 'due:backfill', asset) and 'B' or 'L'
end
-- Returns the waiting entry of an asset; nil if it is in flight or not owed.
local function waiting_of(asset)
  if to_wait[asset] then return to_wait[asset] end
  if is_empty.waiting then return nil end
  local id = redis.call('HGET', base .. 'owed', asset)
  if not id then return nil end
  local lane = lane_of(asset)
  return {
    id = id, lane = lane, is_written = true,
    since = tonumber(redis.call('ZSCORE', base .. 'owed-since', asset) or now),
    due = tonumber(redis.call('ZSCORE', base .. LANES[lane], asset) or now),
  }
end
local function stop_waiting(asset, w)
  to_wait[asset] = nil
  if not w.is_written then return end
  redis.call('HDEL', base .. 'owed', asset)
  redis.call('ZREM', base .. 'owed-since', asset)
  redis.call('ZREM', base .. LANES[w.lane], asset)
end
local function make_due(asset, w, due)
  if to_wait[asset] then w.due = due else redis.call('ZADD', base .. LANES[w.lane], due, asset) end
end
-- Returns the notification by which an asset is owed; nil if there is none.
local function owed_id(asset, f, w)
  if f then
    if f.newer == NOTHING then return nil end
    return f.newer or f.id
  end
  return w and w.id
end
-- Ends an attempt's hold of an asset: if it is still owed, it waits until `due`.
local function land(asset, f, due)
  redis.call('HDEL', base .. 'flight', asset)
  local id = owed_id(asset, f)
  if id then wait(asset, id, f.since, f.lane, due) end
end
-- Ends the holds whose lease is over: their assets are due. `write_waiting` must follow.
local function land_expired()
  local all = redis.call('HKEYS', base .. 'flight')
  for _, asset in ipairs(all) do
    local f = flight_of(asset)
    if f and f.lease <= now then land(asset, f, math.min(now, tonumber(f.since))) end
  end
  local resends = redis.call('HGETALL', base .. 'resends')
  for i = 1, #resends, 2 do
    if tonumber(resends[i + 1]) <= now then redis.call('HDEL', base .. 'resends', resends[i]) end
  end
end
local function in_flight() return redis.call('HLEN', base .. 'flight') + redis.call('HLEN', base .. 'resends') end
local function owed_count() return redis.call('HLEN', base .. 'owed') + redis.call('HLEN', base .. 'flight') end
-- Makes an asset owed by this notification. A notification that it replaces ends as superseded at the same moment and
-- passes on its "owed since". `write_waiting` must follow. Returns the lane, live if either of the two is, and
-- the id of the notification that it replaced, false if there was none.
local function owe(asset, id, lane)
  local f = not to_wait[asset] and flight_of(asset) or nil
  local w = not f and waiting_of(asset) or nil
  local before = owed_id(asset, f, w)
  if before and before ~= id then finish(before, 'superseded', id) end
  if before and (f or w).lane == 'L' then lane = 'L' end
  -- An asset that was cancelled in flight is owed from now on.
  if f and not before then f.since = now end
  if f and f.lease > now then
    -- Owed again while an attempt of the same notification is under way: nothing newer waits for its end.
    f.newer, f.lane = f.id ~= id and id or nil, lane
    write_flight(asset, f)
  elseif f then
    redis.call('HDEL', base .. 'flight', asset)
    wait(asset, id, f.since, lane, now)
  elseif w then
    if w.is_written and w.lane ~= lane then redis.call('ZREM', base .. LANES[w.lane], asset) end
    wait(asset, id, w.since, lane, math.min(now, w.since))
    to_wait[asset].is_written = w.is_written
  else
    wait(asset, id, now, lane, now)
  end
  return lane, before and before ~= id and before or false
end
