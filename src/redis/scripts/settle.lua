-- Settles verdicts: writes the result of an attempt to its notification, its owed asset and its endpoint's health.

-- The attempts that a record keeps, the newest of them, and their size.
local MAX_ATTEMPTS, MAX_BYTES = 20, 8192
-- Returns the attempts of a record with one more; the oldest are removed first.
local function with_attempt(lines, line)
  lines = lines and lines .. '\n' .. line or line
  local _, breaks = string.gsub(lines, '\n', '')
  while breaks >= MAX_ATTEMPTS or #lines > MAX_BYTES and breaks > 0 do
    lines = string.sub(lines, string.find(lines, '\n', 1, true) + 1)
    breaks = breaks - 1
  end
  return lines
end
-- Says whether the client itself may have held back an event that was accepted at `at`: its state, its bounds, or its receiver. What
-- ends within a second was hardly held, and costs no look.
local function held_since(at)
  if now - at < 1000 then return false end
  local h, l = health(), limits()
  return h.state ~= 'active' or h.recovered_at > at or h.not_before > at or h.places > 0 or l.rate > 0 or l.quiet_ms > 0
    or l.bound ~= nil and in_flight() >= l.bound
end
-- Notes the oldest update of what was delivered more than a minute late in this hour: a replay of the hour begins there. Its time is of
-- Redis' clock, as its place in the feed.
local function note_late(updated_at)
  if now - updated_at < 60000 then return end
  local hour = string.format('%d', math.floor(now / 3600000))
  local oldest = redis.call('HGET', base .. 'late', hour)
  if not oldest or tonumber(oldest) > updated_at then redis.call('HSET', base .. 'late', hour, string.format('%d', updated_at)) end
end
-- Settles one verdict, and answers `Settled` of src/redis/owed/turn.ts. It counts once, by its nonce, so it is safe to repeat.
local function settle_attempt(v)
  local current, f, w = owed_by(v.asset)
  local is_counted = f ~= nil and f.nonce == v.nonce
  local r = redis.call('HMGET', record(v.id), 'attempts', 'failures', 'clock_since', 'accepted_at', 'state', 'group', 'again', 'unlisted',
    'updated_at', 'failed_epoch')
  local exists, failures, since, changed, says = r[4], tonumber(r[2] or '0'), tonumber(r[3]), {}, {}
  local is_timed = is_counted and not r[1] and not held_since(tonumber(exists or now))
  local function answer(result, at)
    if #changed > 0 then redis.call('HSET', record(v.id), unpack(changed)) end
    return {
      result = result, inMs = at and math.max(at - now, 0), failures = failures, change = says.change,
      acceptedAt = tonumber(exists), isTimed = is_timed,
    }
  end
  local function ends(state, reason)
    if exists then close(v.id, changed, state, nil, reason, r[8]) end
    changed = {}
    return answer(state)
  end
  local h = health()
  local same_url, same_epoch, last_success = v.epoch >= h.url_epoch, h.epoch == v.epoch, h.last_success_at
  if is_counted and exists then add(changed, 'attempts', with_attempt(r[1], v.line)) end
  if same_url then
    if v.is_ok then settle_success(says, same_epoch)
    elseif is_counted then settle_failure(says, same_epoch, v) end
  end
  if current ~= v.id or is_counted and f.newer then
    -- Superseded, cancelled or settled before. What became owed meanwhile is due now.
    if is_counted then wait_again(v.asset, f) end
    if v.is_ok and same_url and is_counted and r[5] == 'superseded' then
      add(changed, 'state', 'delivered')
      add(changed, 'ended_at', now)
      redis.call('HDEL', record(v.id), 'by', 'since')
      return answer('delivered')
    end
    return answer(v.is_ok and r[5] == 'delivered' and 'delivered' or 'gone')
  end
  if v.is_ok and same_url and (is_counted or not r[7]) then
    local delivered = ends('delivered')
    if exists then note_late(tonumber(r[9] or exists)) end
    -- Another attempt that is under way keeps its place until it ends.
    if f and (is_counted or f.lease <= now) then end_flight(v.asset) else owe_no_more(v.asset, f) end
    return delivered
  end
  -- A late verdict: after the end of its lease the asset is due again, or another attempt holds it.
  if not is_counted then return answer('retry', f and f.lease or w.due) end
  if not same_url then
    wait_again(v.asset, f, now)
    return answer('retry', now)
  end
  local is_without_workflow = r[6] == const.without_workflow
  if failures > 0 and tonumber(r[10] or '0') < h.url_epoch then
    -- What an older URL refused says nothing of this one. Catch-up times what the event's workflow may have left to it.
    redis.call('HDEL', record(v.id), 'clock_since')
    add(changed, 'group', const.without_workflow)
    failures, since, is_without_workflow = 0, nil, true
  end
  failures = failures + 1
  add(changed, 'failures', failures)
  if failures == 1 then add(changed, 'failed_epoch', v.epoch) end
  local clock_now = accepting_clock()
  if not since and is_sure() then add(changed, 'clock_since', clock_now) end
  local due = now + delay_of(schedule.retryScheduleMs, failures, v.random)
  local took_others = last_success > tonumber(r[4] or now)
  local is_over = is_sure() and clock_now + due - now - (since or clock_now) > schedule.retryWindowMs
  if is_over and health().state == 'active' and took_others then
    note_failed(v.asset, v.id, f, 'window')
    local failed = ends('failed', 'window')
    end_flight(v.asset)
    return failed
  end
  wait_again(v.asset, f, due)
  -- The event's workflow times the others, if it has one.
  if failures > const.short_retries or is_without_workflow then alarm(due) end
  return answer('retry', due)
end
-- Settles the attempts of one client that have ended, then takes the oldest due for the places that are free. It may use memory that
-- Redis refuses to others: each delivery frees some.
-- Arguments: `bounds`, `turn`, `verdict` of each, and `given_back` of each asset that was taken and not attempted
-- Answer: JSON of `Turned` of src/redis/owed/turn.ts
-- Repeat: safe: a verdict counts once, by its nonce; what the lost call has taken is due when its lease ends, or when it is named as lost
entry('turn', function(_, ARGV)
  local given, i = args.turn(ARGV, read_bounds(ARGV))
  local settled, verdict, back = {}, nil, nil
  schedule = given.settings and cjson.decode(given.settings)
  for n = 1, given.verdicts do
    verdict, i = args.verdict(ARGV, i)
    settled[n] = settle_attempt(verdict)
  end
  while i <= #ARGV do
    back, i = args.given_back(ARGV, i)
    local f, due = flight_of(back.asset), back.in_ms > 0 and now + back.in_ms or nil
    -- It counts nothing, and is due then, or in its former order. The process that gives it back makes the next attempt, unless it ends.
    if f and f.nonce == back.nonce then
      wait_again(back.asset, f, due)
      if due then alarm(due + lease_ms) end
    end
  end
  if given.lost then end_leases(' ' .. given.lost .. ' ') end
  take()
  if #settled > 0 then trim_list() end
  -- An empty list would be an object in JSON.
  return answer_taken({settled = #settled > 0 and settled or nil})
end, {'allow-oom'})
