-- Settles verdicts: writes the result of an attempt to its notification, its owed asset and its endpoint's health.

-- Retries that the event's workflow times; later ones, and those of a notification without a workflow, are catch-up's.
local SHORT_RETRIES = 3
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
-- Says whether the client itself may have held back an event that was accepted at `at`: its state, its bounds, or its receiver.
local function held_since(at)
  local h, l = health(), limits()
  return h.state ~= 'active' or h.recovered_at > at or h.not_before > at or h.places > 0 or l.rate > 0 or l.quiet_ms > 0
    or l.bound ~= nil and in_flight() >= l.bound
end
-- Settles one verdict, and answers `Settled` of src/redis/owed/turn.ts. It counts once, by its nonce, so it is safe to repeat.
local function settle_attempt(v)
  local current, f, w = owed_by(v.asset)
  local is_counted = f ~= nil and f.nonce == v.nonce
  local r = redis.call('HMGET', record(v.id), 'attempts', 'failures', 'clock_since', 'accepted_at', 'state', 'group', 'again', 'unlisted')
  local exists, failures, changed, says = r[4], tonumber(r[2] or '0'), {}, {}
  local was_held = held_since(tonumber(exists or now))
  local function answer(result, at)
    if #changed > 0 then redis.call('HSET', record(v.id), unpack(changed)) end
    return {
      result = result, inMs = at and math.max(at - now, 0), failures = failures, change = says.change,
      acceptedAt = tonumber(exists), isFirst = is_counted and not r[1], wasHeld = was_held,
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
      redis.call('HDEL', record(v.id), 'by')
      return answer('delivered')
    end
    return answer(v.is_ok and r[5] == 'delivered' and 'delivered' or 'gone')
  end
  if v.is_ok and same_url and (is_counted or not r[7]) then
    local delivered = ends('delivered')
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
  failures = failures + 1
  add(changed, 'failures', failures)
  if not r[3] and is_sure() then add(changed, 'clock_since', clock()) end
  local due = now + delay_of(schedule.retryScheduleMs, failures, v.random)
  local clock_at_due = clock() + due - now
  local took_others = last_success > tonumber(r[4] or now)
  local is_over = is_sure() and clock_at_due - tonumber(r[3] or clock()) > schedule.retryWindowMs
  if is_over and health().state == 'active' and took_others then
    note_failed(v.asset, v.id, f.lane, 'window')
    local failed = ends('failed', 'window')
    end_flight(v.asset)
    return failed
  end
  wait_again(v.asset, f, due)
  if failures > SHORT_RETRIES or r[6] == NO_WORKFLOW then alarm(due) end
  return answer('retry', due)
end
-- Gives back an asset that was taken and not attempted, and counts nothing; it is due again at `due`, or (nil) in its former order. The
-- process that gives it back makes the next attempt, unless it ends.
local function give_back(asset, nonce, due)
  local f = flight_of(asset)
  if not f or f.nonce ~= nonce then return end
  wait_again(asset, f, due)
  if due then alarm(due + lease_ms) end
end
-- Settles the attempts of one client that have ended, then takes the oldest due for the places that are free. It may use memory that
-- Redis refuses to others: each delivery frees some.
-- Arguments: those of `read_bounds`, nonces of calls whose answers were lost, JSON of the settings ('' without a failure), number of
--   verdicts and of each asset, id, nonce, epoch, '1' if it is ok, status, error, Retry-After (ms), JSON of the attempt, a random number
--   from 0 to 1; of each asset given back: asset, nonce, in how many ms it is due
-- Answer: JSON of `Turned` of src/redis/owed/turn.ts
-- Repeat: safe: a verdict counts once, by its nonce; what the lost call has taken is due when its lease ends, or when it is named as lost
entry('turn', function(_, ARGV)
  read_bounds(ARGV)
  schedule = ARGV[9] ~= '' and cjson.decode(ARGV[9]) or nil
  local settled, i = {}, 11
  for _ = 1, tonumber(ARGV[10]) do
    settled[#settled + 1] = settle_attempt({
      asset = ARGV[i], id = ARGV[i + 1], nonce = ARGV[i + 2], epoch = tonumber(ARGV[i + 3]), is_ok = ARGV[i + 4] == '1',
      status = ARGV[i + 5], error = ARGV[i + 6], retry_after = tonumber(ARGV[i + 7]), line = ARGV[i + 8],
      random = tonumber(ARGV[i + 9]),
    })
    i = i + 10
  end
  for at = i, #ARGV, 3 do
    local in_ms = tonumber(ARGV[at + 2])
    give_back(ARGV[at], ARGV[at + 1], in_ms > 0 and now + in_ms or nil)
  end
  if ARGV[8] ~= '' then end_leases(' ' .. ARGV[8] .. ' ') end
  take()
  -- An empty list would be an object in JSON.
  return answer_taken({settled = #settled > 0 and settled or nil})
end, {'allow-oom'})
