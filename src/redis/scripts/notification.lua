-- Writes notifications' records, and moves owed assets between two places. Each owed asset is in exactly one of them:
--   flight   while an attempt holds it: `<token> <lease end> <owed since> <L or B> <id> [<newer id>]`. A newer
--            notification of the asset waits there for the attempt's end; `!` instead: the asset is no longer owed.
--   waiting  otherwise: in `owed`, in `owed-since` and in one of `due:live` and `due:backfill`.

-- As text, because Lua would format a number in every call.
local KEEP_SECONDS = '1209600'
local NOTHING = '!'
-- The name of the workflow of a notification that has none.
local NO_WORKFLOW = '-'
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
-- Makes an ended record wait again. Its workflow has ended: catch-up makes its attempts.
local function reopen(id)
  redis.call('HDEL', record(id), 'state', 'ended_at', 'reason', 'by', 'failures', 'clock_since')
  redis.call('HSET', record(id), 'group', NO_WORKFLOW)
  redis.call('PERSIST', record(id))
end
local function finish(id, state, by, reason)
  if redis.call('EXISTS', record(id)) == 1 then close(id, {}, state, by, reason) end
end
-- Lists a notification; `trim_list` must follow in the same call.
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

-- How many assets are in flight, and how many wait in Redis: read once in a call, then counted.
local flights, waiting
-- Assets that begin to wait in this call, by their names and in their order. `write_waiting` writes them, except those taken before it.
local to_wait, arrived
at_begin(function() flights, waiting, to_wait, arrived = nil, nil, {}, {} end)
local function in_flight()
  flights = flights or redis.call('HLEN', base .. 'flight')
  return flights
end
local function waiting_count()
  waiting = waiting or redis.call('HLEN', base .. 'owed')
  return waiting
end
local function owed_count() return waiting_count() + in_flight() end
-- Returns the entry of an asset's attempt; nil if there is none.
local function flight_of(asset)
  if in_flight() == 0 then return nil end
  local packed = redis.call('HGET', base .. 'flight', asset)
  if not packed then return nil end
  local token, lease, since, lane, id, newer = string.match(packed, '^(%S+) (%d+) (%d+) (%u) (%S+) ?(%S*)$')
  return {token = token, lease = tonumber(lease), since = since, lane = lane, id = id, newer = newer ~= '' and newer or nil}
end
local function packed_flight(f)
  return string.format('%s %d %d %s %s%s', f.token, f.lease, f.since, f.lane, f.id, f.newer and ' ' .. f.newer or '')
end
local function write_flight(asset, f) redis.call('HSET', base .. 'flight', asset, packed_flight(f)) end
local function end_flight(asset)
  redis.call('HDEL', base .. 'flight', asset)
  flights = in_flight() - 1
end
local function wait(asset, id, since, lane, due)
  if not to_wait[asset] then arrived[#arrived + 1] = asset end
  to_wait[asset] = {id = id, since = tonumber(since), lane = lane, due = due}
end
-- Writes what began to wait. It must follow every function that says so.
local function write_waiting()
  local owed, since, due = {}, {}, {L = {}, B = {}}
  for _, asset in ipairs(arrived) do
    local w = to_wait[asset]
    if w then
      local n, lane = #owed, due[w.lane]
      owed[n + 1], owed[n + 2] = asset, w.id
      since[n + 1], since[n + 2] = w.since, asset
      lane[#lane + 1], lane[#lane + 2] = w.due, asset
    end
  end
  to_wait, arrived = {}, {}
  if #owed == 0 then return end
  waiting = nil
  for i = 1, #owed, 2000 do
    local last = math.min(i + 1999, #owed)
    redis.call('HSET', base .. 'owed', unpack(owed, i, last))
    redis.call('ZADD', base .. 'owed-since', unpack(since, i, last))
  end
  for lane, entries in pairs(due) do
    for i = 1, #entries, 2000 do
      redis.call('ZADD', base .. LANES[lane], unpack(entries, i, math.min(i + 1999, #entries)))
    end
  end
end
-- Returns the waiting entry of an asset; nil if it is in flight or not owed.
local function waiting_of(asset)
  local w = to_wait[asset]
  if w then return w end
  if waiting_count() == 0 then return nil end
  local id = redis.call('HGET', base .. 'owed', asset)
  if not id then return nil end
  local lane, due = 'L', redis.call('ZSCORE', base .. LANES.L, asset)
  if not due then lane, due = 'B', redis.call('ZSCORE', base .. LANES.B, asset) end
  return {
    id = id, lane = lane, is_written = true,
    since = tonumber(redis.call('ZSCORE', base .. 'owed-since', asset) or now), due = tonumber(due or now),
  }
end
local function stop_waiting(asset, w)
  to_wait[asset] = nil
  if not w.is_written then return end
  waiting = waiting_count() - redis.call('HDEL', base .. 'owed', asset)
  redis.call('ZREM', base .. 'owed-since', asset)
  redis.call('ZREM', base .. LANES[w.lane], asset)
end
-- Returns the notification by which an asset is owed (nil if there is none), with the entry of its attempt or its waiting entry.
local function owed_by(asset)
  local f = not to_wait[asset] and flight_of(asset) or nil
  if not f then
    local w = waiting_of(asset)
    return w and w.id, nil, w
  end
  if f.newer == NOTHING then return nil, f end
  return f.newer or f.id, f
end
-- Ends an attempt's hold of an asset: if it is still owed, it waits until `due`. `write_waiting` must follow.
local function land(asset, f, due)
  end_flight(asset)
  if f.newer ~= NOTHING then wait(asset, f.newer or f.id, f.since, f.lane, due) end
end
-- Ends the holds whose lease is over: their assets are due. Returns when the next lease ends, nil if none is left. `write_waiting`
-- must follow.
local function land_expired()
  local next_end
  local all = redis.call('HGETALL', base .. 'flight')
  for i = 1, #all, 2 do
    local f = flight_of(all[i])
    if f.lease <= now then land(all[i], f, math.min(now, tonumber(f.since)))
    else next_end = math.min(next_end or f.lease, f.lease) end
  end
  return next_end
end
-- Makes an asset owed by this notification. A notification that it replaces ends as superseded at the same moment and
-- passes on its "owed since". `write_waiting` must follow. Returns the lane, live if either of the two is, and
-- whether it replaced one.
local function owe(asset, id, lane)
  local before, f, w = owed_by(asset)
  if before and before ~= id then finish(before, 'superseded', id) end
  if before and (f or w).lane == 'L' then lane = 'L' end
  -- An asset that was cancelled in flight is owed from now on.
  if f and not before then f.since = now end
  if f and f.lease > now then
    -- Owed again while an attempt of the same notification is under way: nothing newer waits for its end.
    f.newer, f.lane = f.id ~= id and id or nil, lane
    write_flight(asset, f)
  elseif f then
    f.newer, f.lane = id, lane
    land(asset, f, math.min(now, tonumber(f.since)))
    -- At once: it may be older than what arrived in this call.
    write_waiting()
  elseif w then
    if w.is_written and w.lane ~= lane then redis.call('ZREM', base .. LANES[w.lane], asset) end
    wait(asset, id, w.since, lane, math.min(now, w.since))
    to_wait[asset].is_written = w.is_written
  else
    wait(asset, id, now, lane, now)
  end
  return lane, before and before ~= id
end
