-- Settles verdicts: writes the result of an attempt to its notification, its owed asset and its endpoint's health.
-- Reads q.lease, q.verdicts, q.given_back and q.extended, and q.schedule if a verdict is a failure.
-- include: client, table, endpoint, notice, notification

-- The attempts that a record keeps, the newest of them, and their size.
local MAX_ATTEMPTS, MAX_BYTES = 20, 8192
-- Reads the endpoint's health, once for all verdicts until one changes it.
local health_read
local function read_health()
  if not health_read then
    local e = redis.call('HMGET', E, 'generation', 'epoch', 'probe', 'state', 'failures', 'last_success_at')
    health_read = {
      generation = tonumber(e[1] or '0'), epoch = tonumber(e[2] or '0'), probe = e[3], state = e[4] or 'active',
      failures = tonumber(e[5] or '0'), last_success_at = tonumber(e[6] or '0'),
    }
  end
  return health_read
end
-- Returns a step of a schedule, ms, with jitter: lengthened by up to a tenth at random.
local function delay_of(list, step, random)
  return math.ceil(list[math.min(step, #list)] * (1 + 0.1 * random))
end
local notice_of = {failing = 'endpoint.failing', suspended = 'endpoint.suspended', active = 'endpoint.recovered'}
-- Changes the endpoint's state, and owes the notice of that; says: the verdict's answer about the change.
local function become(says, name, reason)
  local from, since, attempts_failed = seen(), failed_so_far(field('last_failure_at') or now)
  says.entered, says.left, says.why = name, state(), reason
  enter(name)
  note_change(from, reason, 'service')
  owe_notice('state_notice', notice_of[name], reason, since, attempts_failed)
end
local function settle_success(says, h, same_epoch, probe, redeliver)
  -- Readers need it only to the second, so a busy endpoint saves most of these writes.
  if now - h.last_success_at >= 1000 then
    redis.call('HSET', E, 'last_success_at', now)
    h.last_success_at = now
  end
  if not same_epoch then return end
  if h.state == 'failing' and (probe or redeliver) then
    become(says, 'active', probe and 'a probe succeeded' or 'a redelivery succeeded')
    says.has_recovered = true
    health_read = nil
  elseif h.state == 'active' and h.failures > 0 then
    redis.call('HSET', E, 'failures', 0, 'attempts_failed', 0)
    redis.call('HDEL', E, 'first_failure_at', 'first_failure_clock')
    health_read = nil
  end
end
local function settle_failure(says, h, same_epoch, probe, status, reason_failed, retry_after, random)
  health_read = nil
  redis.call('HSET', E, 'last_failure_at', now, 'last_error', reason_failed, 'last_status', status)
  if retry_after > 0 then
    redis.call('HSET', E, 'not_before', math.max(number('not_before'), now + retry_after))
  end
  -- A failure from before a recovery must not count towards the next suspension.
  if not same_epoch then return end
  local in_a_row = redis.call('HINCRBY', E, 'failures', 1)
  local failed_attempts = redis.call('HINCRBY', E, 'attempts_failed', 1)
  if redis.call('HSETNX', E, 'first_failure_at', now) == 1 then
    redis.call('HSET', E, 'first_failure_clock', clock())
  end
  if tostring(status) == '410' and h.state ~= 'suspended' then
    become(says, 'suspended', 'it answered 410')
  elseif h.state == 'active' and in_a_row >= q.schedule.failing_after then
    become(says, 'failing', in_a_row .. ' attempts failed in a row')
    redis.call('HSET', E, 'probe_step', 1, 'probe_at', now + delay_of(q.schedule.probe, 1, random))
  elseif h.state == 'failing' and probe then
    local step = redis.call('HINCRBY', E, 'probe_step', 1)
    redis.call('HSET', E, 'probe_at', now + delay_of(q.schedule.probe, step, random))
    redis.call('HDEL', E, 'probe')
    local fails_long = clock() - number('first_failure_clock') >= q.schedule.suspend_after
    if fails_long and failed_attempts >= q.schedule.suspend_attempts then
      become(says, 'suspended', 'it failed for too long, ' .. failed_attempts .. ' attempts')
    end
  end
end
-- Notes a change of the record; `answer` writes all of a verdict's at once.
local function change(changed, name, value)
  changed[#changed + 1] = name
  changed[#changed + 1] = value
end
local function answer(outcome, in_ms, id, changed, failures, says, newer)
  if #changed > 0 then redis.call('HSET', record(id), unpack(changed)) end
  if says.has_recovered then
    -- First the writes that an earlier verdict of this call has deferred.
    write_waiting()
    pull_forward()
  end
  return {
    outcome, in_ms, failures, says.entered or '', says.left or '', says.why or '', newer or false,
    says.accepted_at, says.is_first, says.state,
  }
end
-- Settles one verdict. It counts once, by its token, so it is safe to repeat. `write_waiting` must follow.
-- v: asset, id, token, generation, epoch, ok, status, error, Retry-After ms, attempt's JSON, random number from 0 to 1,
-- redeliver.
-- Answers {outcome, in how many ms it is due, failures, state entered, state left, why, newer id, accepted_at, is_first,
-- state}: accepted_at and state are those of the record before, is_first whether no attempt of it has ended before.
local function settle_attempt(v)
  local asset, id, token, generation, epoch, ok, status, reason_failed, retry_after, line, random, redeliver = unpack(v)
  local f = not to_wait[asset] and flight_of(asset) or nil
  local counted
  if redeliver then counted = redis.call('HDEL', base .. 'resends', token .. ' ' .. id) == 1
  else counted = f ~= nil and f.token == token end
  local w = not f and waiting_of(asset) or nil
  local current = owed_id(asset, f, w) == id
  local r = redis.call('HMGET', record(id), 'attempts', 'failures', 'clock_since', 'accepted_at', 'redeliver_failures',
    'state')
  local exists, failures = r[4], tonumber(r[2] or '0')
  local changed, says = {}, {accepted_at = exists or false, is_first = counted and not r[1], state = r[6]}
  if counted and exists then
    local lines = r[1] and (r[1] .. '\n' .. line) or line
    local _, breaks = string.gsub(lines, '\n', '')
    while breaks >= MAX_ATTEMPTS or #lines > MAX_BYTES and breaks > 0 do
      lines = string.sub(lines, string.find(lines, '\n', 1, true) + 1)
      breaks = breaks - 1
    end
    change(changed, 'attempts', lines)
  end
  local h = read_health()
  local same_url, same_epoch = h.generation == generation, h.epoch == epoch
  local last_success = h.last_success_at
  if same_url then
    local probe = h.probe == token .. ' ' .. asset
    if ok then settle_success(says, h, same_epoch, probe, redeliver)
    elseif counted then settle_failure(says, h, same_epoch, probe, status, reason_failed, retry_after, random) end
  end
  local outcome, reason
  if redeliver then
    if ok and same_url or ok and not current then outcome = 'delivered'
    elseif ok then return answer('delivered', -1, id, changed, failures, says)
    else
      local times = tonumber(r[5] or '0') + 1
      change(changed, 'redeliver_failures', times)
      local answered = answer('retry', delay_of(q.schedule.retry, times, random), id, changed, failures, says)
      -- If it is owed again meanwhile, its record stays as long as it is owed.
      if not current then redis.call('EXPIRE', record(id), KEEP_SECONDS) end
      return answered
    end
  elseif not current then
    local newer
    if counted then
      -- A newer notification took its place during the attempt; the newer one is due now.
      newer = owed_id(asset, f)
      land(asset, f, math.min(now, tonumber(f.since)))
    end
    -- It was already settled (the answer was lost), or settled by another attempt.
    local was_delivered = ok and r[6] == 'delivered'
    return answer(was_delivered and 'delivered' or 'gone', -1, id, changed, failures, says, newer)
  elseif ok and same_url then
    outcome = 'delivered'
  elseif not counted then
    -- A late verdict: after the end of its lease the asset is due again, or another attempt holds it.
    return answer('retry', f and math.max(f.lease - now, 0) or 0, id, changed, failures, says)
  elseif not same_url then
    land(asset, f, now)
    return answer('retry', 0, id, changed, failures, says)
  else
    failures = failures + 1
    change(changed, 'failures', failures)
    if not r[3] then change(changed, 'clock_since', clock()) end
    local delay = delay_of(q.schedule.retry, failures, random)
    local since = tonumber(r[3] or clock())
    local took_others = last_success > tonumber(r[4] or now)
    if clock() + delay - since > q.schedule.window and state() == 'active' and took_others then
      outcome, reason = 'failed', 'window'
    else
      land(asset, f, now + delay)
      return answer('retry', delay, id, changed, failures, says)
    end
  end
  -- It has ended.
  if f and current and (redeliver or not counted) and f.lease > now then
    -- Another attempt is under way and keeps its place until it ends.
    f.newer = NOTHING
    write_flight(asset, f)
  elseif f and current then redis.call('HDEL', base .. 'flight', asset)
  elseif current then stop_waiting(asset, w) end
  if exists then
    close(id, changed, outcome, nil, reason)
    changed = {}
  end
  return answer(outcome, -1, id, changed, failures, says)
end
-- Gives back an asset that was taken and not attempted; it is due again at `due`, and nothing is counted.
-- resent: the id of a redelivery, which holds no asset; else false
local function give_back(asset, token, resent, due)
  if resent then
    redis.call('HDEL', base .. 'resends', token .. ' ' .. resent)
    return
  end
  local f = flight_of(asset)
  if f and f.token == token then land(asset, f, due) end
end
-- Extends the lease of an attempt that has not begun yet. Returns 1 if it was still held.
local function extend_lease(asset, token, resent)
  if resent then
    local resend = token .. ' ' .. resent
    if redis.call('HEXISTS', base .. 'resends', resend) == 0 then return 0 end
    redis.call('HSET', base .. 'resends', resend, now + q.lease)
    return 1
  end
  local f = flight_of(asset)
  if not f or f.token ~= token then return 0 end
  f.lease = now + q.lease
  write_flight(asset, f)
  return 1
end
-- Settles, gives back and extends the entries of `q`, and fills the two lists of answers.
local function settle_turn(settled, extended)
  for i, v in ipairs(q.verdicts or {}) do settled[i] = settle_attempt(v) end
  for _, g in ipairs(q.given_back or {}) do
    local asset, token, resent, in_ms = unpack(g)
    give_back(asset, token, resent, now + in_ms)
  end
  for i, x in ipairs(q.extended or {}) do extended[i] = extend_lease(unpack(x)) end
end
