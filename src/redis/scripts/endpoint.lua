-- Reads and changes an endpoint's hash, whose fields src/redis/connection/keys.ts lists.
-- The endpoint's clock runs while there is a URL that is neither paused, held nor suspended.

local function field(name) return redis.call('HGET', E, name) or nil end
local function number(name) return tonumber(redis.call('HGET', E, name) or '0') end

-- Each is read once in a call; a change of the hash drops what was read of it.
local health_read, limits_read, given_bound
-- 1 if the caller must wake catch-up, else 0.
local needs_wake
at_begin(function() health_read, limits_read, given_bound, needs_wake = nil, nil, nil, 0 end)
local function health()
  if health_read then return health_read end
  local e = redis.call('HMGET', E, 'state', 'paused', 'held', 'not_before', 'probe_at', 'probe', 'generation', 'epoch',
    'rate_at', 'drain_at', 'recovered_at', 'catch_up_until', 'failures', 'last_success_at', 'picks', 'leases_end')
  health_read = {
    state = e[1] or 'active', is_paused = e[2] == '1' or e[3] == '1', not_before = tonumber(e[4] or '0'),
    probe_at = tonumber(e[5] or '0'), probe = e[6], generation = tonumber(e[7] or '0'), epoch = tonumber(e[8] or '0'),
    rate_at = tonumber(e[9] or '0'), drain_at = tonumber(e[10] or '0'), recovered_at = tonumber(e[11] or '0'),
    catch_up_until = tonumber(e[12] or '-1'), failures = tonumber(e[13] or '0'), last_success_at = tonumber(e[14] or '0'),
    picks = tonumber(e[15] or '0'), leases_end = tonumber(e[16] or '0'),
  }
  return health_read
end
local function limits()
  if limits_read then return limits_read end
  local c = redis.call('HMGET', base .. 'client', 'account_id', 'deleted', 'max_in_flight', 'max_per_second')
  limits_read = {
    is_known = c[1] and not c[2], is_deleted = c[2],
    bound = tonumber(c[3] or given_bound or ''), rate = tonumber(c[4] or '0'),
    url = redis.call('HGET', base .. 'registration', 'url'),
  }
  return limits_read
end
local function clock()
  local at = number('clock_at')
  return number('clock_ms') + (at > 0 and now - at or 0)
end
local function sync_clock()
  health_read, limits_read = nil, nil
  local h = health()
  local runs = limits().url and not h.is_paused and h.state ~= 'suspended'
  local at = number('clock_at')
  if runs and at == 0 then redis.call('HSET', E, 'clock_at', now)
  elseif not runs and at > 0 then redis.call('HSET', E, 'clock_ms', number('clock_ms') + now - at, 'clock_at', 0) end
end
local function enter(name)
  redis.call('HSET', E, 'state', name)
  redis.call('HINCRBY', E, 'epoch', 1)
  redis.call('HDEL', E, 'probe')
  if name == 'active' then
    redis.call('HSET', E, 'failures', 0, 'recovered_at', now)
    redis.call('HDEL', E, 'first_failure_at', 'probe_step', 'probe_at')
  end
  sync_clock()
end
-- Returns the state that people see.
local function seen()
  local h = health()
  if not limits().url then return 'not_registered' end
  return h.is_paused and 'paused' or h.state
end
-- Records a change of the state that people see, or of the URL (`is_url`), the newest first.
local function note_change(from, why, by, is_url)
  health_read, limits_read = nil, nil
  local to = seen()
  if from == to and not is_url then return end
  local changes = base .. 'state-changes'
  redis.call('LPUSH', changes, cjson.encode({at = now, from = from, to = to, why = why, by = by}))
  redis.call('LTRIM', changes, 0, 19)
end
-- Returns when the lease of the one probe ends; nil if none is under way.
local function probe_end(probe)
  local nonce, asset = string.match(probe or '', '^(%S+) (.*)$')
  local f = asset and flight_of(asset)
  return f and f.nonce == nonce and f.lease > now and f.lease or nil
end
-- Starts again with another URL, or with none: answers of the older URL no longer count.
local function new_generation()
  redis.call('HDEL', E, 'not_before', 'last_error', 'last_status', 'last_failure_at', 'last_success_at')
  enter('active')
  return redis.call('HINCRBY', E, 'generation', 1)
end
-- Later than any time.
local FAR = 8640000000000000
-- Catch-up plans again after this time (ms), which bounds the cost of a lost wake-up.
local LONGEST_SLEEP = 3600000
-- Asks for catch-up by this time (-1: no time is known), unless it wakes before it anyway.
local function alarm(at)
  if at < 0 then at = now + LONGEST_SLEEP end
  local set = health().catch_up_until
  -- Five seconds after its planned wake-up, a catch-up counts as stopped.
  if set > now - 5000 and set <= at then return end
  redis.call('HSET', E, 'catch_up_until', at)
  health_read.catch_up_until = at
  needs_wake = 1
end
-- Makes the first 2,000 assets that wait for a later time due, in the order of "owed since"; the rest keep their time.
local function pull_forward()
  for _, lane in pairs(LANES) do
    local later = redis.call('ZRANGEBYSCORE', base .. lane, now + 1, '+inf', 'LIMIT', 0, 2000)
    for _, asset in ipairs(later) do
      local since = redis.call('ZSCORE', base .. 'owed-since', asset)
      if since then redis.call('ZADD', base .. lane, math.min(tonumber(since), now), asset) end
    end
  end
end
-- Makes what waits due, for a new URL. Returns 1 if something waits.
local function due_now()
  if waiting_count() == 0 then return 0 end
  pull_forward()
  return 1
end
-- Returns the time of the endpoint's first failure since its last success (`otherwise` if there is none), and the number of
-- failed attempts since. Call it before `enter`.
local function failed_so_far(otherwise)
  return tonumber(field('first_failure_at') or otherwise), number('failures')
end
-- Writes a notice to this field, where src/redis/records/notices.ts reads it. It replaces an older one: only the newest counts.
local function owe_notice(name, kind, reason, since, attempts_failed)
  redis.call('HSET', E, name, cjson.encode({
    kind = kind, at = now, reason = reason, since = since, attempts_failed = attempts_failed,
  }))
end
-- Writes the notice of a rotated secret.
local function owe_secret_notice(reason)
  owe_notice('secret_notice', 'secret.rotated', reason, failed_so_far(now))
end
-- Removes a notice that was claimed, unless a newer one has replaced it meanwhile.
-- Arguments: name (of the field), notice (JSON)
-- Answer: 1 if it was removed, else 0
entry('dropNotice', function(_, ARGV)
  if redis.call('HGET', E, ARGV[2]) ~= ARGV[3] then return 0 end
  return redis.call('HDEL', E, ARGV[2])
end)
