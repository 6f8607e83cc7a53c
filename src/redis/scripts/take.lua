-- The one gate before every POST: why nothing may be sent now and until when, and the oldest due for the places that are free.

-- Bounds of the caller: ms of a lease, drains per second, the name of the attempts that this call takes, and how many more it may take.
local lease_ms, drain_per_second, nonce, left, known_secrets
-- Whether the caller sends: it times what is due within a lease.
local sends
-- The assets that this call has taken, as `Taken` of src/redis/owed/turn.ts has it.
local taken
at_begin(function() lease_ms, drain_per_second, nonce, left, taken = nil, nil, nil, 0, {} end)
-- Notes Redis' clock, at most once a second, or how far it is ahead of the caller's (`first_time`). Where it has stepped back, sets right
-- what was noted ahead of the present: nothing waits longer than it would have from now on, and what is due keeps its order
-- (`pull_forward`). Each call that makes something owed does it first.
local function set_right()
  local h, ahead = health(), now - callers_now
  if h.is_turned then
    local newest = tonumber(redis.call('ZREVRANGE', base .. 'owed-since', 0, 0, 'WITHSCORES')[2] or now)
    local not_before = math.min(h.not_before, now + number('retry_after'))
    change('HSET', E, 'set_right_by', math.max(newest - now, 0), 'not_before', not_before, 'leases_end', 0,
      'probe_at', math.min(h.probe_at, now), 'recovered_at', h.recovered_at, 'clock_at', math.min(number('clock_at'), now),
      'again_at', math.min(number('again_at'), now), 'ahead_until', math.min(number('ahead_until'), math.max(now, newest)))
    change('HDEL', E, 'catch_up_until', 'planned_at', 'woken_at')
    for _, asset in ipairs(redis.call('HKEYS', base .. 'flight')) do
      local f = flight_of(asset)
      local by = math.max(f.since - now, 0)
      f.lease, f.since, f.quiet = math.min(f.lease, now + (lease_ms or LONGEST_LEASE)), f.since - by, f.quiet and f.quiet - by
      write_flight(asset, f)
    end
    due_all()
  elseif now < h.clock_seen + CLOCK_SEEN_MS and ahead <= CLOCK_SEEN_MS then return end
  -- A made-up client leaves nothing, nor a deleted one once its keys are gone.
  if not limits().is_known and redis.call('EXISTS', E) == 0 then return end
  note('clock_seen', now, 'turned', math.max(h.turned, turned))
  if ahead > CLOCK_SEEN_MS then
    change('HSET', E, 'ahead_until', math.max(number('ahead_until'), now + CLOCK_SEEN_MS), 'ahead_by', math.max(number('ahead_by'), ahead))
  end
  health().is_turned = false
end
-- Reads the first arguments of a call that may take. Returns where the next one is.
local function read_bounds(ARGV)
  local given, i = args.bounds(ARGV, 2)
  lease_ms, given_bound, drain_per_second, nonce = given.lease_ms, given.max_in_flight, given.drain_per_second, given.nonce
  left, known_secrets = given.most, given.known_secrets
  sends = left > 0
  set_right()
  return i
end
-- Returns when a rate (one attempt every 1000/rate ms) allows the next attempt, at the time `at` that the last one noted. Unused
-- time is kept for `kept_ms`: a burst may be that long.
local function allowed_at(at, rate, kept_ms)
  return math.max(noted(at, 1000 / rate + 1), now - kept_ms)
end
local function rate_time() return allowed_at(health().rate_at, limits().rate, 50) end
local function drain_time() return allowed_at(health().drain_at, drain_per_second, 100) end

-- Returns why nothing of this client may be sent now, and when that ends (ms; -1: with a change from outside, or as soon as an
-- attempt under way ends). It returns 'due' and the present if something may be sent.
local function standing()
  local l, h = limits(), health()
  -- A deletion may be cut off before it has removed the URL.
  if not l.url or l.is_deleted then return 'no_registration', -1 end
  if h.is_paused then return 'paused', -1 end
  if h.state == 'suspended' then return 'suspended', -1 end
  if h.state == 'failing' then
    -- One probe at a time: what is under way ends first.
    local at = math.max(h.probe_at, select(2, leases()) or 0)
    if at > math.max(now, h.not_before) then return 'failing', at end
  end
  if h.not_before > now then return 'not_before', h.not_before end
  if in_flight() >= l.bound then return 'full', -1 end
  if l.rate > 0 and rate_time() > now then return 'rate', math.ceil(rate_time()) end
  return 'due', now
end
-- Backfill leaves a quarter of the places to live events.
local function backfill_bound()
  local bound = limits().bound
  return bound > 1 and bound - math.ceil(bound / 4) or bound
end
-- Returns the same for one asset that is due at `due`.
local function standing_of(lane, due)
  local why, at = standing()
  local is_own = why == 'due' or why == 'full' or why == 'rate' or why == 'not_before' and health().state ~= 'failing'
  if is_own and due > math.max(now, at) then return is_quiet(due) and 'quiet' or 'retry', due end
  if why ~= 'due' or health().state == 'failing' then return why, at end
  if lane == 'B' and in_flight() >= backfill_bound() then return 'full', -1 end
  if due < health().recovered_at and drain_time() > now then return 'rate', math.ceil(drain_time()) end
  return 'due', now
end
local function first_due(lane, from)
  return tonumber(redis.call('ZRANGEBYSCORE', base .. LANES[lane], from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
end
-- Returns when the first asset is due (from `from` on) that finds a place in its lane; FAR if there is none.
local function earliest_due(from)
  local backfill = in_flight() < backfill_bound() and first_due('B', from)
  return math.min(first_due('L', from) or FAR, backfill or FAR)
end
-- Returns when something of this client may be sent next, and why not before: the present, a moment, or -1 if nothing waits or
-- an attempt under way must end first.
local function next_time()
  if waiting_count() == 0 then return -1, 'in_flight' end
  local why, at = standing()
  if why ~= 'due' then return at, why end
  if health().state == 'failing' then return now, 'due' end
  -- Assets that were due before the last recovery are sent at the drain rate.
  local recovered_at, drain_at = health().recovered_at, math.ceil(drain_time())
  at = earliest_due(drain_at > now and recovered_at or '-inf')
  if at <= now then return now, 'due' end
  if drain_at > now and drain_at < at and earliest_due('-inf') < recovered_at then return drain_at, 'rate' end
  if at == FAR then return -1, 'full' end
  return math.ceil(at), is_quiet(at) and 'quiet' or 'retry'
end

local function use_rate(name, at, rate)
  note(name, string.format('%.3f', at + 1000 / rate))
end
local function begin_flight(asset, id, since, lane, trace, body, updated_at, failures)
  left = left - 1
  in_flight()
  write_flight(asset, {nonce = nonce, lease = now + lease_ms, since = since, lane = lane, id = id})
  taken[#taken + 1] = {
    platformId = asset, notificationId = id, priority = lane == 'L' and 'live' or 'backfill',
    trace = trace or nil, body = body or nil, updatedAt = updated_at or nil, attempt = (failures or 0) + 1,
  }
end
local function take_waiting(asset, lane)
  local id, since = redis.call('HGET', base .. 'owed', asset), since_set_right(since_of(asset))
  if id then begin_flight(asset, id, since, lane, unpack(redis.call('HMGET', record(id), 'trace', 'body', 'updated_at', 'failures'))) end
  stop_waiting(asset)
end
-- Takes an asset that was not owed, if nothing else comes before it. Returns whether it did.
local function take_arriving(asset, id, lane, trace, body, updated_at)
  if left == 0 or waiting_count() > 0 or standing_of(lane, now) ~= 'due' or health().state == 'failing' then return false end
  if limits().rate > 0 then use_rate('rate_at', rate_time(), limits().rate) end
  begin_flight(asset, id, now, lane, trace, body, updated_at)
  return true
end
-- By lane, the assets that this call may take, with the time at which each is due, the oldest first.
local candidates
local function find_candidates(lane, from)
  local found = redis.call('ZRANGEBYSCORE', base .. LANES[lane], from, now, 'WITHSCORES', 'LIMIT', 0, left)
  local list = {at = 1, from = from}
  for i = 1, #found, 2 do list[#list + 1] = {asset = found[i], due = tonumber(found[i + 1])} end
  candidates[lane] = list
end
-- Returns the first candidate of a lane; one that the drain rate does not allow yet makes room for those that it does not bound.
local function candidate(lane)
  local list = candidates[lane]
  local first = list[list.at]
  local recovered_at = health().recovered_at
  if not first or first.due >= recovered_at or drain_time() <= now then return first end
  if list.from == recovered_at then return nil end
  find_candidates(lane, recovered_at)
  return candidate(lane)
end
-- Chooses the lane of the next attempt: live, but while both wait one in four is of the backfill.
local function lane_of_next(live, backfill)
  local h = health()
  if live and backfill then
    note('picks', (h.picks + 1) % 4)
    return h.picks == 0 and 'B' or 'L'
  end
  if backfill then return in_flight() < backfill_bound() and 'B' or nil end
  return live and 'L'
end
-- Takes what is due first: a refused asset is due later, so the next probe is another one.
local function take_probe()
  local lane = (first_due('L', '-inf') or FAR) <= (first_due('B', '-inf') or FAR) and 'L' or 'B'
  local asset = redis.call('ZRANGE', base .. LANES[lane], 0, 0)[1]
  take_waiting(asset, lane)
end
-- Takes the oldest due under a lease, as many as the call may take.
local function take()
  pull_forward()
  if left == 0 then return end
  -- Their processes have died.
  if now >= noted(health().leases_end, LONGEST_LEASE) and in_flight() > 0 then end_leases() end
  if waiting_count() == 0 or standing() ~= 'due' then return end
  local l, h = limits(), health()
  if h.state == 'failing' then return take_probe() end
  left = math.min(left, l.bound - in_flight())
  candidates = {}
  find_candidates('L', '-inf')
  find_candidates('B', '-inf')
  while left > 0 and (l.rate == 0 or rate_time() <= now) do
    local lane = lane_of_next(candidate('L'), candidate('B'))
    if not lane then return end
    local chosen = candidate(lane)
    candidates[lane].at = candidates[lane].at + 1
    if l.rate > 0 then use_rate('rate_at', rate_time(), l.rate) end
    if chosen.due < h.recovered_at then use_rate('drain_at', drain_time(), drain_per_second) end
    take_waiting(chosen.asset, lane)
  end
end
-- Ends a call that may have taken: asks for catch-up where the whole client must wait. Returns JSON of `Takes` of src/redis/owed/turn.ts,
-- with the fields of `answer`.
local function answer_taken(answer)
  local at, why = next_time()
  if why == 'quiet' and at <= now + lease_ms then
    if not sends then alarm(at + lease_ms) end
  elseif waiting_count() > 0 and why ~= 'due' and why ~= 'retry' and why ~= 'rate' and why ~= 'full' then alarm(at) end
  if at >= 0 then answer.nextInMs = math.max(math.ceil(at - now), 0) end
  answer.wakeCatchUp = needs_wake == 1
  if #taken > 0 then
    local h = health()
    answer.epoch, answer.url = h.epoch, limits().url
    answer.taken = taken
    if h.secrets_at ~= known_secrets or known_secrets == '' then
      answer.secrets, answer.secretsVersion = {}, h.secrets_at
      local flat = redis.call('HGETALL', base .. 'signing-secrets')
      for i = 1, #flat, 2 do answer.secrets[flat[i]] = flat[i + 1] end
    end
  end
  return cjson.encode(answer)
end
