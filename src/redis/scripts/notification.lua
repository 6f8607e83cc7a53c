-- Writes notifications' records, and moves owed assets. A server may refuse a command in the midst of a script, whose user has lost a
-- right: an asset is written to its new place before it leaves its old one. Each owed asset is in exactly one of these:
--   flight   while an attempt holds it: `<nonce> <lease end> <owed since> <L or B> <id> [<newer id> [<end of quiet period>]]`. What
--            became owed after the attempt began waits there for the attempt's end: a newer notification, or the same one if it was
--            cancelled meanwhile. `!` instead: the asset is no longer owed.
--   waiting  otherwise: in `owed`, in `owed-since` and in one of `due:live` and `due:backfill`.
-- An asset that is not owed and whose newest notification has failed is in `failed-at`, by the time of the failure, in `failed-ids`, by
-- that notification, and in `failed`: `<id> <reason> <L or B> <accepted at> <first time> <updated at> <event>`. The first time
-- (`first_time`) is that since which updates of the asset have not arrived; records of those that ended otherwise than delivered have it as
-- `since`.

local NOTHING = '!'
local LANES = {L = 'due:live', B = 'due:backfill'}
local function record(id) return base .. 'notification:' .. id end
-- Returns the state of a record; nil if there is none.
local function state_of(id)
  local r = redis.call('HMGET', record(id), 'asset', 'state')
  return r[1] and (r[2] or 'waiting') or nil
end
local function add(fields, name, value) fields[#fields + 1], fields[#fields + 2] = name, value end
-- Counts what ends as cancelled, by the day, for as long as records are kept: today and the 14 days before.
local DAY_MS = 86400000
local function count_cancelled()
  local key, day = base .. 'cancelled', math.floor(now / DAY_MS)
  if redis.call('HINCRBY', key, day, 1) > 1 then return end
  redis.call('EXPIRE', key, (const.record_kept_days + 1) * 86400)
  for _, one in ipairs(redis.call('HKEYS', key)) do
    if tonumber(one) < day - const.record_kept_days then redis.call('HDEL', key, one) end
  end
end
local function cancelled_count()
  local sum, flat = 0, redis.call('HGETALL', base .. 'cancelled')
  for i = 1, #flat, 2 do
    if tonumber(flat[i]) >= math.floor(now / DAY_MS) - const.record_kept_days then sum = sum + flat[i + 1] end
  end
  return sum
end
-- So long is the record of one kept that ended, and that the list no longer has: a lost answer is asked for again, and the event's workflow
-- looks after its longest wait.
local ASKED_AGAIN_MS = 180000
local function keep_briefly(id) redis.call('EXPIRE', record(id), string.format('%d', ASKED_AGAIN_MS / 1000)) end
-- Ends a record, and writes `fields` (alternating names and values) in the same write.
local function close(id, fields, state, by, reason, is_unlisted, since)
  if state == 'cancelled' then count_cancelled() end
  add(fields, 'state', state)
  add(fields, 'ended_at', now)
  if by then add(fields, 'by', by) end
  if reason then add(fields, 'reason', reason) end
  if since then add(fields, 'since', since) end
  redis.call('HSET', record(id), unpack(fields))
  if not is_unlisted or state == 'failed' then return redis.call('EXPIRE', record(id), const.record_kept_seconds) end
  redis.call('ZREM', base .. 'unlisted', id)
  keep_briefly(id)
end
local function finish(id, state, by, reason, since)
  local r = redis.call('HMGET', record(id), 'asset', 'unlisted')
  if r[1] then return close(id, {}, state, by, reason, r[2], since) end
  -- It failed longer ago than records are kept.
  redis.call('ZREM', base .. 'unlisted', id)
  if state == 'cancelled' then count_cancelled() end
end
-- Lists a notification; `trim_list` must follow in the same call.
local function list(id, accepted_at) redis.call('ZADD', base .. 'notifications', accepted_at, id) end
-- How many assets are in flight, wait and have failed: read once in a call, then counted.
local sizes
at_begin(function() sizes = {} end)
local function size(name)
  sizes[name] = sizes[name] or redis.call('HLEN', base .. name)
  return sizes[name]
end
local function count(name, by) sizes[name] = sizes[name] and sizes[name] + by end
local function in_flight() return size('flight') end
local function waiting_count() return size('owed') end
local function owed_count() return waiting_count() + in_flight() end
-- Keeps the newest 10,000 that have ended. Those that are owed or have failed are kept beside them: the oldest of these in `unlisted`, until
-- they end. One call removes as many as delay nobody: whatever lets notifications end calls it, and a plan once more.
local TRIMMED_AT_ONCE = 500
local function trim_list()
  local log = base .. 'notifications'
  local over = redis.call('ZCARD', log) - const.listed_at_most
  if over > 0 then over = over - owed_count() - size('failed') + redis.call('ZCARD', base .. 'unlisted') end
  if over <= 0 then return end
  local out = redis.call('ZPOPMIN', log, math.min(over, TRIMMED_AT_ONCE))
  for i = 1, #out, 2 do
    local id = out[i]
    local asset, state, ended_at = unpack(redis.call('HMGET', record(id), 'asset', 'state', 'ended_at'))
    local has_ended = state and state ~= 'failed'
    local recently = has_ended and tonumber(ended_at) >= now - ASKED_AGAIN_MS
    if has_ended and not recently then redis.call('DEL', record(id))
    elseif asset then redis.call('HSET', record(id), 'unlisted', 1) end
    if not has_ended then
      local is_kept = asset and not state or size('failed') > 0 and redis.call('HEXISTS', base .. 'failed-ids', id) == 1
      if is_kept then redis.call('ZADD', base .. 'unlisted', out[i + 1], id) end
    elseif recently then keep_briefly(id) end
  end
end
-- Returns the entry of an asset's attempt; nil if there is none.
local function flight_of(asset)
  if sizes.flight == 0 then return nil end
  local packed = redis.call('HGET', base .. 'flight', asset)
  if not packed then return nil end
  local nonce, lease, since, lane, id, newer, quiet = string.match(packed, '^(%S+) (%d+) (%d+) (%u) (%S+) ?(%S*) ?(%S*)$')
  return {
    nonce = nonce, lease = tonumber(lease), since = tonumber(since), lane = lane, id = id,
    newer = newer ~= '' and newer or nil, quiet = tonumber(quiet),
  }
end
local function write_flight(asset, f)
  local newer = f.newer and ' ' .. f.newer .. (f.quiet and string.format(' %.1f', f.quiet) or '') or ''
  local packed = string.format('%s %d %d %s %s%s', f.nonce, f.lease, f.since, f.lane, f.id, newer)
  count('flight', redis.call('HSET', base .. 'flight', asset, packed))
end
local function end_flight(asset) count('flight', -redis.call('HDEL', base .. 'flight', asset)) end
local function wait(asset, id, since, lane, due)
  redis.call('ZADD', base .. LANES[lane], due, asset)
  redis.call('ZADD', base .. 'owed-since', since, asset)
  count('owed', redis.call('HSET', base .. 'owed', asset, id))
end
local function stop_waiting(asset)
  count('owed', -redis.call('HDEL', base .. 'owed', asset))
  redis.call('ZREM', base .. 'owed-since', asset)
  for _, lane in pairs(LANES) do redis.call('ZREM', base .. lane, asset) end
end
local function since_of(asset) return tonumber(redis.call('ZSCORE', base .. 'owed-since', asset) or now) end
-- Returns the waiting entry of an asset; nil if it is in flight or not owed.
local function waiting_of(asset)
  if sizes.owed == 0 then return nil end
  local id = redis.call('HGET', base .. 'owed', asset)
  if not id then return nil end
  local lane, due = 'L', redis.call('ZSCORE', base .. LANES.L, asset)
  if not due then lane, due = 'B', redis.call('ZSCORE', base .. LANES.B, asset) end
  return {id = id, lane = lane, since = since_of(asset), due = tonumber(due or now)}
end
-- Returns the notification by which an asset is owed (nil if there is none), with the entry of its attempt or its waiting entry.
local function owed_by(asset)
  local f = flight_of(asset)
  if not f then
    local w = waiting_of(asset)
    return w and w.id, nil, w
  end
  if f.newer == NOTHING then return nil, f end
  return f.newer or f.id, f
end
-- Notes when something was first made due since catch-up's plan, which takes it for due later: a process may end before it sends it, or
-- wakes catch-up (`endpoint` in plan.lua).
local function hurry()
  local at, planned_at = unpack(redis.call('HMGET', E, 'hurried_at', 'planned_at'))
  at = tonumber(at or '0')
  if at < tonumber(planned_at or '0') or at > now then note('hurried_at', now) end
end
-- Ends an attempt's entry: if its asset is still owed, the asset waits until `due`, or is due in its former order, but no earlier than
-- its quiet period ends.
local function wait_again(asset, f, due)
  due = due or math.min(now, f.since)
  if f.newer ~= NOTHING then wait(asset, f.newer or f.id, f.since, f.lane, math.max(due, f.quiet or due)) end
  end_flight(asset)
end
-- Notes that an asset is no longer owed. An attempt under way (its entry `f`) keeps its place until it ends.
local function owe_no_more(asset, f)
  if not f then return stop_waiting(asset) end
  f.newer, f.quiet = NOTHING, nil
  write_flight(asset, f)
end
-- No lease is longer (src/config.ts): one that ends later was noted before the clock was set back.
local LONGEST_LEASE = const.longest_attempt_ms + const.beside_attempt_ms
-- Returns when the first and the last lease of the attempts under way end; nil if there are none.
local function leases()
  local first, last
  if in_flight() == 0 then return nil end
  for _, packed in ipairs(redis.call('HVALS', base .. 'flight')) do
    local lease = tonumber(string.match(packed, '^%S+ (%d+)'))
    first, last = math.min(first or lease, lease), math.max(last or lease, lease)
  end
  return first, last
end
-- Ends the entries whose lease is over, and those of the calls of these nonces (between spaces; nil: none): their assets are due.
-- Notes and returns when the next lease ends, nil if none is left.
local function end_leases(nonces)
  local next_end
  for _, asset in ipairs(redis.call('HKEYS', base .. 'flight')) do
    local f = flight_of(asset)
    if noted(f.lease, LONGEST_LEASE) <= now or nonces and string.find(nonces, ' ' .. f.nonce .. ' ', 1, true) then wait_again(asset, f)
    else next_end = math.min(next_end or f.lease, f.lease) end
  end
  note('leases_end', next_end or 0)
  return next_end
end
-- Returns since when the oldest asset is owed that waits; nil if none does.
local function waiting_since() return tonumber(redis.call('ZRANGE', base .. 'owed-since', 0, 0, 'WITHSCORES')[2]) end
-- Returns the same, waiting or in flight.
local function owed_since()
  local oldest = waiting_since()
  if in_flight() == 0 then return oldest end
  for _, packed in ipairs(redis.call('HVALS', base .. 'flight')) do
    local since, newer = string.match(packed, '^%S+ %d+ (%d+) %u %S+ ?(%S*)')
    if newer ~= NOTHING then oldest = math.min(oldest or FAR, tonumber(since)) end
  end
  return oldest
end
-- What never arrived and is owed again is owed since then (`again_at`), but holds `delivered_until` back to its first time (`again_from`,
-- the least of several): while any asset is owed that was owed by then.
-- What was owed while Redis' clock was ahead of the callers' (until `ahead_until`, by `ahead_by` at most) is older than it says.
local again, again_from
at_begin(function() again, again_from = nil, nil end)
local function first_time(since)
  again = again or redis.call('HMGET', E, 'again_at', 'again_from', 'ahead_until', 'ahead_by')
  local is_ahead = again[3] and (since <= tonumber(again[3]) or since > now)
  local first = is_ahead and since - tonumber(again[4] or 0) or since
  if again[1] and since <= tonumber(again[1]) then return math.min(first, tonumber(again[2])) end
  return first
end
local function owe_since_before(first)
  if again_from and again_from <= first then return end
  -- What was owed before, the first of this call has counted.
  local oldest = not again_from and owed_since()
  again, again_from = nil, oldest and math.min(first, first_time(oldest)) or first
  change('HSET', E, 'again_at', now, 'again_from', again_from)
end
-- So far the clocks of Redis and the callers may differ, or Redis' may step back, unnoted; and clients note it so seldom.
local CLOCK_SEEN_MS = 1000
-- Returns the time before which each update has arrived, or was replaced by one that has, or has ended otherwise; and `owed_since`. The
-- clock that is ahead does not count.
local function delivered_until()
  local oldest = owed_since()
  return math.min(now, callers_now, oldest and first_time(oldest) - CLOCK_SEEN_MS or FAR), oldest
end
-- Makes an ended record wait again. Its workflow has ended: catch-up makes its attempts. A late verdict of a former one delivers nothing.
local function reopen(id)
  local first, is_unlisted, accepted_at = unpack(redis.call('HMGET', record(id), 'since', 'unlisted', 'accepted_at'))
  if first then owe_since_before(tonumber(first)) end
  if is_unlisted then redis.call('ZADD', base .. 'unlisted', accepted_at, id) end
  redis.call('HDEL', record(id), 'state', 'ended_at', 'reason', 'by', 'failures', 'clock_since', 'failed_epoch', 'since')
  redis.call('HSET', record(id), 'group', const.without_workflow, 'again', now)
  redis.call('PERSIST', record(id))
end
-- Returns the entry of a failed asset; nil if there is none.
local function failed_of(asset)
  local packed = size('failed') > 0 and redis.call('HGET', base .. 'failed', asset)
  if not packed then return nil end
  local id, reason, lane, accepted_at, since, updated_at, event = string.match(packed, '^(%S+) (%S+) (%u) (%d+) (%d+) (%S+) (%S*)$')
  return {id = id, reason = reason, lane = lane, accepted_at = accepted_at, since = tonumber(since), updated_at = updated_at, event = event}
end
-- Returns the same by its notification, with the asset.
local function failed_by(id)
  local asset = size('failed') > 0 and redis.call('HGET', base .. 'failed-ids', id)
  local f = asset and failed_of(asset)
  if f then f.asset = asset end
  return f
end
local function drop_failed(asset, id)
  redis.call('ZREM', base .. 'failed-at', asset)
  redis.call('HDEL', base .. 'failed-ids', id)
  count('failed', -redis.call('HDEL', base .. 'failed', asset))
end
-- Removes the entry of a failed asset that this notification makes owed; another one ends as superseded.
local function replace_failed(asset, id)
  local f = failed_of(asset)
  if not f then return end
  drop_failed(asset, f.id)
  owe_since_before(f.since)
  if f.id ~= id then finish(f.id, 'superseded', id, nil, f.since) end
end
-- Whether an asset that is due at this time waits for the end of a quiet period: such a time ends with half a millisecond, as no other.
local function is_quiet(due) return due % 1 ~= 0 end
-- Returns since when a waiting asset is owed, where Redis' clock has stepped back since then: by as much as the newest was ahead. Between
-- two steps it may have been ahead by less, and nothing ends because of a clock: it is at most a day.
local function since_set_right(since)
  if since <= now then return since end
  return math.max(math.min(since - tonumber(redis.call('HGET', E, 'set_right_by') or 0), now), now - DAY_MS)
end
-- Makes an asset owed by this notification. A notification that it replaces ends as superseded at the same moment and
-- passes on its "owed since"; and, if the client has a quiet period (`quiet_ms`), the end of that. Returns the lane, live if either of
-- the two is, and whether it replaced one.
local function owe(asset, id, lane, quiet_ms)
  local before, f, w = owed_by(asset)
  local replaces = before ~= nil and before ~= id
  local entry_before = before and (f or w) or {since = now}
  if replaces then finish(before, 'superseded', id, nil, first_time(entry_before.since)) end
  local since, quiet = f and math.min(entry_before.since, now) or since_set_right(entry_before.since), nil
  if entry_before.lane == 'L' then lane = 'L' end
  if quiet_ms and quiet_ms > 0 then
    if not before then quiet = now + quiet_ms + 0.5
    elseif f then quiet = f.quiet
    elseif is_quiet(w.due) then quiet = w.due - (w.since - since) end
  end
  if f then
    f.since, f.lane, f.quiet = since, lane, quiet
    if before ~= id then f.newer = id end
    if f.lease > now then write_flight(asset, f) else wait_again(asset, f) end
  else
    if w and w.due > now and not quiet then hurry() end
    wait(asset, id, since, lane, quiet or math.min(now, since))
    if w and w.lane ~= lane then redis.call('ZREM', base .. LANES[w.lane], asset) end
  end
  replace_failed(asset, id)
  return lane, replaces
end
