-- The one gate before every POST: why nothing may be sent now and until when, and the oldest due for the places that are free.

-- Bounds of the caller: ms of a lease, drains per second, and the name of the attempts that this call takes.
local lease_ms, drain_per_second, nonce
at_begin(function() lease_ms, drain_per_second, nonce = nil, nil, nil end)
-- Of a call that may take: lease, bound, drain rate and nonce, in four arguments from `at` on.
local function read_bounds(ARGV, at)
  lease_ms, given_bound, drain_per_second, nonce = tonumber(ARGV[at]), ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3]
end
-- Returns the time of the next place of a rate (one every 1000/rate ms) whose last one was before `at`. Unused places are kept for
-- `kept_ms`: a burst may be that long. A clock that was set back delays it by one place at most.
local function place_after(at, rate, kept_ms)
  return math.max(math.min(at, now + 1000 / rate), now - kept_ms)
end
local function rate_place() return place_after(health().rate_at, limits().rate, 50) end
local function drain_place() return place_after(health().drain_at, drain_per_second, 100) end

-- Returns why nothing of this client may be sent now, and when that ends (ms; -1: with a change from outside, or as soon as an
-- attempt under way ends). It returns 'due' and the present if something may be sent.
local function standing()
  local l, h = limits(), health()
  if not l.url then return 'no_registration', -1 end
  if h.is_paused then return 'paused', -1 end
  if h.state == 'suspended' then return 'suspended', -1 end
  if h.state == 'failing' then
    local at = math.max(h.probe_at, h.not_before, probe_end(h.probe) or 0)
    if at > now then return 'failing', at end
  elseif h.not_before > now then return 'not_before', h.not_before end
  if in_flight() >= l.bound then return 'full', -1 end
  if l.rate > 0 and rate_place() > now then return 'rate', math.ceil(rate_place()) end
  return 'due', now
end
-- Backfill leaves a quarter of the places to live events.
local function backfill_bound()
  local bound = limits().bound
  return bound > 1 and bound - math.max(1, math.floor(bound / 4)) or bound
end
local function first_due(lane, from)
  return tonumber(redis.call('ZRANGEBYSCORE', base .. LANES[lane], from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
end
-- Returns when something of this client may be sent next, and why not before: the present, a moment, or -1 if nothing waits or
-- an attempt under way must end first.
local function next_time()
  if waiting_count() == 0 then return -1, 'in_flight' end
  local why, at = standing()
  if why ~= 'due' then return at, why end
  if health().state == 'failing' then return now, 'due' end
  local function earliest(from)
    local backfill = in_flight() < backfill_bound() and first_due('B', from)
    return math.min(first_due('L', from) or FAR, backfill or FAR)
  end
  -- What was due before the last recovery is sent at the drain rate.
  local recovered_at, drain_at = health().recovered_at, drain_per_second and math.ceil(drain_place()) or now
  at = earliest(drain_at > now and recovered_at or '-inf')
  if at <= now then return now, 'due' end
  if drain_at > now and drain_at < at and earliest('-inf') < recovered_at then return drain_at, 'rate' end
  if at == FAR then return -1, 'full' end
  return at, 'retry'
end

-- What may be taken in this call, of each lane: entries with the time at which each is due, the oldest first.
local candidates
local function find_candidates(lane, from, count)
  local found, list = {}, {at = 1, from = from}
  if waiting_count() > 0 then
    found = redis.call('ZRANGEBYSCORE', base .. LANES[lane], from, now, 'WITHSCORES', 'LIMIT', 0, count)
  else
    -- All that waits has arrived in this call and is not written yet.
    for _, asset in ipairs(arrived) do
      local w = to_wait[asset]
      local is_due = w and w.lane == lane and w.due <= now and (from == '-inf' or w.due >= from)
      if is_due then found[#found + 1], found[#found + 2] = asset, w.due end
    end
  end
  for i = 1, #found, 2 do list[#list + 1] = {asset = found[i], due = tonumber(found[i + 1]), lane = lane} end
  candidates[lane] = list
end
-- Returns the first candidate of a lane; one that the drain rate does not allow yet makes room for those that it does not bound.
local function candidate(lane, count)
  local list = candidates[lane]
  local first = list[list.at]
  local recovered_at = health().recovered_at
  if not first or first.due >= recovered_at or drain_place() <= now then return first end
  if list.from == recovered_at then return nil end
  find_candidates(lane, recovered_at, count)
  return candidate(lane, count)
end
-- Chooses the lane of the next attempt: live, but while both wait one in four is of the backfill.
local function lane_of_next(live, backfill)
  local h = health()
  if live and backfill then
    h.picks = (h.picks + 1) % 4
    redis.call('HSET', E, 'picks', h.picks)
    return h.picks == 0 and 'B' or 'L'
  end
  if backfill then return in_flight() < backfill_bound() and 'B' or nil end
  return live and 'L'
end
local function hold(chosen)
  local asset = chosen.asset
  local w = waiting_of(asset)
  stop_waiting(asset, w)
  local f = {token = nonce, lease = now + lease_ms, since = w.since, lane = w.lane, id = w.id}
  flights = in_flight() + 1
  write_flight(asset, f)
  local r = w.is_written and redis.call('HMGET', record(w.id), 'trace', 'body') or {w.trace, w.body}
  return {asset, w.id, w.lane, r[1] or false, r[2] or false}
end
local function use_place(name, at, rate)
  health()[name] = at + 1000 / rate
  redis.call('HSET', E, name, string.format('%.3f', at + 1000 / rate))
end
local function take_probe()
  for _, lane in ipairs({'L', 'B'}) do
    local asset = redis.call('ZRANGE', base .. LANES[lane], 0, 0)[1]
    if asset then
      health().probe = nonce .. ' ' .. asset
      redis.call('HSET', E, 'probe', health().probe)
      return {hold({asset = asset})}
    end
  end
  return {}
end
-- Takes at most so many assets under a lease. Returns of each asset, id, lane, and trace and body of its record. `write_waiting`
-- must follow.
local function take(most)
  if waiting_count() == 0 and #arrived == 0 then return {} end
  local why = standing()
  if why == 'full' then
    land_expired()
    write_waiting()
    why = standing()
  end
  if why ~= 'due' then return {} end
  local l, h = limits(), health()
  if h.state == 'failing' then
    write_waiting()
    return take_probe()
  end
  -- Written first if others wait already: they may be older.
  if waiting_count() > 0 then write_waiting() end
  local taken, count = {}, math.min(most, l.bound - in_flight())
  candidates = {}
  find_candidates('L', '-inf', count)
  find_candidates('B', '-inf', count)
  while #taken < count and (l.rate == 0 or rate_place() <= now) do
    local lane = lane_of_next(candidate('L', count), candidate('B', count))
    if not lane then break end
    local chosen = candidate(lane, count)
    candidates[lane].at = candidates[lane].at + 1
    if l.rate > 0 then use_place('rate_at', rate_place(), l.rate) end
    if chosen.due < h.recovered_at then use_place('drain_at', drain_place(), drain_per_second) end
    taken[#taken + 1] = hold(chosen)
  end
  return taken
end
-- Looks again, before the POST of an attempt that had to wait: returns 1 and extends its lease if it may still be sent to the
-- same URL; else gives the asset back and returns 0. `write_waiting` must follow.
local function may_still(asset, token, generation)
  local f = flight_of(asset)
  if not f or f.token ~= token then return 0 end
  local l, h = limits(), health()
  local is_probe = h.probe == token .. ' ' .. asset
  local is_open = l.url and not h.is_paused and h.generation == generation and h.not_before <= now and not f.newer
    and (h.state == 'active' or h.state == 'failing' and is_probe)
  if not is_open then
    land(asset, f, math.min(now, tonumber(f.since)))
    return 0
  end
  f.lease = now + lease_ms
  write_flight(asset, f)
  return 1
end
-- Finds what a call of this nonce has taken before its answer was lost, and may still be sent. `write_waiting` must follow.
local function taken_before()
  local taken = {}
  for _, asset in ipairs(redis.call('HKEYS', base .. 'flight')) do
    local f = flight_of(asset)
    if f.token == nonce and may_still(asset, nonce, health().generation) == 1 then
      local r = redis.call('HMGET', record(f.id), 'trace', 'body')
      taken[#taken + 1] = {asset, f.id, f.lane, r[1] or false, r[2] or false}
    end
  end
  return taken
end
-- Ends a call that may have taken: writes what waits, and asks for catch-up where the whole client must wait. Returns what the
-- caller needs to send and to go on: URL, signing secrets, generation, epoch, in how many ms something may be sent next (-1: unknown),
-- why not before, 1 if catch-up must be woken, and what was taken.
local function answer_taken(taken)
  write_waiting()
  local at, why = next_time()
  local in_ms = at < 0 and -1 or math.max(math.ceil(at - now), 0)
  if waiting_count() > 0 and why ~= 'due' and why ~= 'retry' and why ~= 'rate' and why ~= 'full' then alarm(at) end
  local h = health()
  if #taken == 0 then return {'', {}, h.generation, h.epoch, in_ms, why, needs_wake, taken} end
  return {
    limits().url, redis.call('HGETALL', base .. 'signing-secrets'), h.generation, h.epoch, in_ms, why, needs_wake, taken,
  }
end
