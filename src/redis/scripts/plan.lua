-- Reads what a client is owed: for catch-up, the sweep, workflows and people.

-- So soon catch-up looks whether a replay may owe more.
local REPLAY_MS = 2000
-- Plans catch-up: ends notifications owed for too long, at most 200, and notes until when catch-up sleeps, and that it has planned
-- (`alarm`). A full Redis allows it: otherwise nobody could make due what a dead process holds.
-- Arguments: `plan`
-- Answer: JSON of `Plan` of src/redis/owed/standing.ts
entry('plan', function(_, ARGV)
  local given = args.plan(ARGV, 2)
  local retention_ms = given.retention_ms
  given_bound, drain_per_second, lease_ms = given.max_in_flight, given.drain_per_second, given.lease_ms
  set_right()
  local lease_ends = end_leases()
  local too_old = is_sure() and redis.call('ZRANGEBYSCORE', base .. 'owed-since', '-inf', now - retention_ms, 'LIMIT', 0, 200) or {}
  for _, asset in ipairs(too_old) do
    local w = waiting_of(asset)
    if w then
      note_failed(asset, w.id, w, 'expired')
      finish(w.id, 'failed', nil, 'expired')
      stop_waiting(asset)
    else redis.call('ZREM', base .. 'owed-since', asset) end
  end
  trim_list()
  -- A replay that runs owes more.
  local owed, replays = owed_count(), health().replay_end > 0
  if owed == 0 and not replays then
    change('HDEL', E, 'catch_up_until', 'planned_at', 'woken_at')
    redis.call('DEL', base .. 'owed-since', base .. LANES.L, base .. LANES.B)
    return cjson.encode({owed = 0, replays = false, oldestAt = 0, inMs = 0, reason = 'due', expired = #too_old})
  end
  pull_forward()
  local oldest = waiting_since() or now
  local at, why = next_time()
  if at < 0 then at = oldest + retention_ms end
  if replays and (waiting_count() == 0 or standing() == 'due' or why == 'rate' or why == 'full') then at = math.min(at, now + REPLAY_MS) end
  -- A hand that is there sends it.
  if why == 'quiet' and at <= now + lease_ms then at = at + lease_ms end
  -- An asset in flight is due when its lease ends: its process may have died.
  at = math.max(math.min(at, lease_ends or at, now + LONGEST_SLEEP), now + given.least_ms)
  note('catch_up_until', at, 'planned_at', now)
  return cjson.encode({owed = owed, replays = replays, oldestAt = oldest, inMs = math.ceil(at - now), reason = why, expired = #too_old})
end, {'allow-oom'})

-- Reads how notifications stand.
-- Arguments: bound, drain rate; then `look` of each
-- Answer: JSON of an `Answer` of src/redis/owed/standing.ts for each
entry('look', function(_, ARGV)
  given_bound, drain_per_second = ARGV[2], tonumber(ARGV[3])
  local found, i, n = {}, 4, nil
  while i <= #ARGV do
    n, i = args.look(ARGV, i)
    local id, asset, claim = n.id, n.asset, n.claim
    local current, f, w = owed_by(asset)
    local r = redis.call('HMGET', record(id), 'asset', 'state', 'failures', 'attempts')
    local last = r[4] and string.match(r[4], '[^\n]*$') or nil
    if current == id then
      local why, at = 'in_flight', f and noted(f.lease, LONGEST_LEASE)
      if w then why, at = standing_of(w.lane, w.due) end
      local in_ms = at >= 0 and math.max(math.ceil(at - now), 0) or nil
      found[#found + 1] = {state = 'waiting', reason = why, inMs = in_ms, failures = tonumber(r[3]), last = last}
    else
      local known, by = 0, ''
      if claim > 0 then known, by = read_known(n.bucket, n.slot) end
      local is_lost = known < claim or claim > 0 and known == claim and by ~= n.id_bytes
      found[#found + 1] = is_lost and {state = 'lost'} or {state = r[2] or 'unknown', last = last}
    end
  end
  return cjson.encode(found)
end, {'no-writes'})

-- Reads a client's endpoint and what it is owed.
-- Arguments: bound, drain rate, kept_ms (older failures are not counted)
-- Answer: JSON of `Endpoint` of src/redis/records/endpoint.ts
entry('endpoint', function(_, ARGV)
  given_bound, drain_per_second = ARGV[2], tonumber(ARGV[3])
  local failed_at, kept = base .. 'failed-at', '(' .. now - tonumber(ARGV[4])
  local h, oldest, at, why = health(), waiting_since() or now, next_time()
  local till, owed_at = delivered_until()
  local since = at >= 0 and at or FAR
  if why == 'due' then
    local due = earliest_due('-inf')
    -- Before these times a rate allowed nothing.
    local drain_at = due < h.recovered_at and h.drain_at or 0
    local may_at = h.state == 'failing' and h.probe_at or math.max(due, noted(math.max(h.rate_at, drain_at), 0))
    since = math.max(may_at, math.min(h.recovered_at, now), h.not_before)
  end
  -- An asset in flight is due when its lease ends: the process that holds it may have died.
  local first_end = leases()
  since = math.min(since, first_end or FAR)
  -- What was due before catch-up planned, and was not made due since (`hurry`), it knows; it looks at the time that it noted. Within one
  -- millisecond the change may have come last.
  local until_at, hurried_at, replays = h.catch_up_until, number('hurried_at'), h.replay_end > 0
  local needed, unplanned = until_at + AWAKE_MS, since
  if hurried_at > now then hurried_at = 0 end
  if hurried_at > 0 and (why == 'due' or replays) then unplanned = math.max(why == 'due' and since or 0, hurried_at) end
  if until_at == 0 then needed = since == FAR and (replays and hurried_at or oldest) or since
  elseif unplanned >= h.planned_at then needed = math.min(needed, unplanned) end
  -- Whatever was noted before the clock stepped back counts as late.
  if h.is_turned then needed = 0 end
  if since == FAR then since = math.max(until_at, oldest) end
  local is_consistent = waiting_count() == redis.call('ZCARD', base .. 'owed-since')
    and waiting_count() == redis.call('ZCARD', base .. LANES.L) + redis.call('ZCARD', base .. LANES.B)
  local change = redis.call('LINDEX', base .. 'state-changes', 0)
  local held, first_failure, last_failure, last_failed_id, last_error, last_status, last_detail = unpack(redis.call('HMGET',
    E, 'held', 'first_failure_at', 'last_failure_at', 'last_failed_id', 'last_error', 'last_status', 'last_detail'))
  local r = redis.call('HMGET', E, 'replay_since', 'replay_until', 'replay_at', 'replay_count', 'replay_ended_at')
  local replay = r[1] and {
    since = tonumber(r[1]), untilMs = tonumber(r[2]), at = math.floor(tonumber(r[3]) / 1000), count = tonumber(r[4]),
    runs = h.replay_end > 0, endedAt = tonumber(r[5] or nil),
  } or nil
  return cjson.encode({
    replay = replay, readAt = now, quietSeconds = limits().quiet_ms / 1000, failed = redis.call('ZCOUNT', failed_at, kept, '+inf'),
    failedSince = tonumber(redis.call('ZRANGEBYSCORE', failed_at, kept, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]),
    state = h.is_paused and 'paused' or h.state, held = held and true or false, accountPaused = held == 'paused' or nil, owed = owed_count(), inFlight = in_flight(),
    owedSince = owed_at, deliveredUntil = limits().url and till or nil, cancelled = cancelled_count(), nextAttemptAt = at >= 0 and at or nil,
    waitingReason = owed_count() > 0 and why or nil, overdueMs = math.floor(now - since),
    catchUpLateMs = math.floor(now - needed), isConsistent = is_consistent,
    catchUpUntil = h.catch_up_until > 0 and h.catch_up_until or nil, failures = h.failures,
    firstFailureAt = tonumber(first_failure), lastSuccessAt = h.last_success_at > 0 and h.last_success_at or nil,
    lastFailureAt = tonumber(last_failure), lastFailedId = last_failed_id or nil,
    lastError = last_error or nil, lastStatus = tonumber(last_status), lastDetail = last_detail ~= '' and last_detail or nil,
    lastChange = change and cjson.decode(change) or nil,
  })
end, {'no-writes'})
