-- Takes assets: the one gate before every POST. Reads q.lease, q.bound, q.drain and q.nonce.
-- The nonce identifies the attempts that a call takes: the same call, repeated after a lost answer, recognises its own.
-- `write_waiting` must follow.
-- include: client, table, endpoint, notification, known

local needs_wake = 0
-- Reads the facts that all events and attempts of the client share, once in a script. `updates_until` is a
-- variable of its own: one more field would double their table.
local common_facts, updates_until
local function common()
  if common_facts then return common_facts end
  local client = redis.call('HMGET', base .. 'client', 'account_id', 'deleted', 'max_in_flight', 'max_per_second')
  local e = redis.call('HMGET', E, 'state', 'paused', 'held', 'not_before', 'probe_at', 'probe', 'generation', 'epoch',
    'rate_at', 'drain_at', 'recovered_at', 'updates_until')
  common_facts = {
    is_known = client[1] and not client[2], is_deleted = client[2],
    bound = tonumber(client[3] or q.bound), rate = tonumber(client[4] or '0'),
    url = redis.call('HGET', base .. 'registration', 'url'),
    state = e[1] or 'active', is_paused = e[2] == '1' or e[3] == '1', not_before = tonumber(e[4] or '0'),
    probe_at = tonumber(e[5] or '0'), probe = e[6], generation = tonumber(e[7] or '0'), epoch = tonumber(e[8] or '0'),
    rate_at = e[9], drain_at = e[10], recovered_at = tonumber(e[11] or '0'),
  }
  updates_until = tonumber(e[12] or '-1')
  return common_facts
end
-- Returns the time of the place after this one (every 1000/rate ms), or nil and how long to wait for this one.
-- Unused places are kept for `kept_ms`: a burst may be that long.
local function place(at, rate, kept_ms)
  local next_at = math.max(tonumber(at or '0'), now - kept_ms)
  if next_at > now then return nil, math.ceil(next_at - now) end
  return string.format('%.3f', next_at + 1000 / rate), nil
end
-- Later than any time until which catch-up sleeps.
local NEVER = 8640000000000000
-- Refuses an attempt of a client to which nothing may be sent now. Catch-up continues with it: at a known time, or after a
-- change from outside.
local function refuse_all(mode, reason, in_ms)
  if mode == 'first' or mode == 'retry' then
    needs_wake = math.max(needs_wake, wake_by(in_ms < 0 and NEVER or now + in_ms))
  end
  return {reason, in_ms}
end
-- Ids that this call has taken: a second request for one of them is refused.
local held_here = {}
-- Takes one asset. claim: its number, 0 if unknown; may_use_all: backfill whose turn has come may use every place.
local function take_attempt(asset, id, mode, claim, bucket, slot, may_use_all)
  local redeliver, token = mode == 'redeliver', q.nonce
  local resend = redeliver and token .. ' ' .. id
  if held_here[resend or id] then return {'leased', q.lease} end
  local f = not to_wait[asset] and flight_of(asset) or nil
  local is_own
  if redeliver then is_own = redis.call('HEXISTS', base .. 'resends', resend) == 1
  else is_own = f and f.token == token and f.id == id and not f.newer end
  local w
  if f and f.lease <= now and not is_own then
    land(asset, f, math.min(now, tonumber(f.since)))
    f = nil
  end
  if not redeliver then
    if not f then w = waiting_of(asset) end
    if owed_id(asset, f, w) ~= id then
      if claim > 0 and read_known(bucket, slot) < claim then return {'reclaim'} end
      local r = redis.call('HMGET', record(id), 'asset', 'state', 'attempts')
      return {'gone', r[1] and (r[2] or 'waiting') or false, r[3] and string.match(r[3], '[^\n]*$') or false}
    end
  end
  local c = common()
  if not c.url then return refuse_all(mode, 'no_registration', -1) end
  if c.is_paused then return refuse_all(mode, 'paused', -1) end
  if c.state == 'suspended' then return refuse_all(mode, 'suspended', -1) end
  if f and not is_own and not redeliver then return {'leased', f.lease - now} end
  if c.not_before > now then return refuse_all(mode, 'not_before', c.not_before - now) end
  if (mode == 'retry' or mode == 'drain') and w and w.due > now then
    local r = redis.call('HMGET', record(id), 'failures', 'attempts')
    return {'not_due', w.due - now, tonumber(r[1] or '0'), r[2] and string.match(r[2], '[^\n]*$') or false}
  end
  if c.state == 'failing' and not redeliver then
    -- Another probe under way ends first.
    local other = not is_own and probe_end(c.probe)
    local next_at = math.max(c.probe_at, other or now, now)
    if mode ~= 'probe' or next_at > now then return refuse_all(mode, 'failing', next_at - now) end
  end
  if not is_own then
    c.in_flight = c.in_flight or in_flight()
    local lane, bound = w and w.lane or 'L', c.bound
    -- Backfill leaves a quarter of the places to live events.
    if lane == 'B' and bound > 1 and not may_use_all then bound = bound - math.max(1, math.floor(bound / 4)) end
    if c.in_flight >= bound and not c.has_landed then
      c.has_landed = true
      land_expired()
      c.in_flight = in_flight()
    end
    if c.in_flight >= bound then return {'full', 100} end
    local rate_next, drain_next, in_ms
    if c.rate > 0 then
      rate_next, in_ms = place(c.rate_at, c.rate, 50)
      if in_ms then return {'rate', in_ms} end
    end
    if mode == 'drain' and w and w.since < c.recovered_at then
      drain_next, in_ms = place(c.drain_at, q.drain, 100)
      if in_ms then return {'rate', in_ms} end
    end
    if rate_next then
      redis.call('HSET', E, 'rate_at', rate_next)
      c.rate_at = rate_next
    end
    if drain_next then
      redis.call('HSET', E, 'drain_at', drain_next)
      c.drain_at = drain_next
    end
    c.in_flight = c.in_flight + 1
    if not redeliver then
      stop_waiting(asset, w)
      f = {token = token, since = w.since, lane = w.lane, id = id}
      if c.state == 'failing' then
        c.probe = token .. ' ' .. asset
        redis.call('HSET', E, 'probe', c.probe)
      end
    end
  end
  -- Its own lease begins again: a repeated call has not begun the attempt yet.
  if redeliver then redis.call('HSET', base .. 'resends', resend, now + q.lease)
  else
    f.lease = now + q.lease
    write_flight(asset, f)
  end
  held_here[resend or id] = true
  return {'taken', token, c.generation, c.epoch}
end
local function signing_secrets() return redis.call('HGETALL', base .. 'signing-secrets') end
