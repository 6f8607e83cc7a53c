/**
 * Lua for every script that reads or changes an endpoint's health.
 *
 * The endpoint hash `{T}:endpoint`
 *   generation      raised by each register, reset and change of the URL; never falls
 *   state           active (also when absent) | failing | suspended
 *   paused, held    '1' while an operator paused it; while its account is disabled
 *   epoch           raised at each change of state: a verdict from an older epoch changes no state
 *   failures        failed attempts in a row, over all notifications
 *   first_failure_at, last_failure_at, last_success_at, last_error, last_status
 *   not_before      no attempt before it (Retry-After), ms
 *   probe_step, probe_at, probe    the one probe of a failing endpoint; `probe`: its token and asset
 *   clock_ms, clock_at    the client's clock: ms run so far; since when it runs (0: it stands still)
 *   catch_up_until  until when catch-up sleeps (absent: none is known to run), ms
 *   rate_at, drain_at  the time of the next free place in max_per_second, and in the drain rate, ms
 *   recovered_at    when deliveries were last free to go on: what waits since before drains at a bounded rate, ms
 *
 * The clock runs while there is a URL that is neither paused, held nor suspended. Needs `notificationLua` where
 * `probe_end` or `pull_forward` is used.
 */
export const endpointLua = `
local E = base .. 'endpoint'
local function field(name) return redis.call('HGET', E, name) or nil end
local function number(name) return tonumber(redis.call('HGET', E, name) or '0') end
local function state() return field('state') or 'active' end
local function clock()
  local at = number('clock_at')
  return number('clock_ms') + (at > 0 and now - at or 0)
end
local function sync_clock()
  local runs = redis.call('HEXISTS', base .. 'registration', 'url') == 1
    and field('paused') ~= '1' and field('held') ~= '1' and state() ~= 'suspended'
  local at = number('clock_at')
  if runs and at == 0 then redis.call('HSET', E, 'clock_at', now)
  elseif not runs and at > 0 then redis.call('HSET', E, 'clock_ms', number('clock_ms') + now - at, 'clock_at', 0) end
end
local function enter(name)
  redis.call('HSET', E, 'state', name)
  redis.call('HINCRBY', E, 'epoch', 1)
  redis.call('HDEL', E, 'probe')
  if name == 'active' then
    redis.call('HSET', E, 'failures', 0, 'attempts_failed', 0, 'recovered_at', now)
    redis.call('HDEL', E, 'first_failure_at', 'probe_step', 'probe_at')
  end
  sync_clock()
end
-- The state as people see it.
local function seen()
  if redis.call('HEXISTS', base .. 'registration', 'url') == 0 then return 'not_registered' end
  if field('paused') == '1' or field('held') == '1' then return 'paused' end
  return state()
end
-- Keeps what people see change, the newest first.
local function note_change(from, why, by)
  local to = seen()
  if from == to then return end
  local changes = base .. 'state-changes'
  redis.call('LPUSH', changes, cjson.encode({at = now, from = from, to = to, why = why, by = by}))
  redis.call('LTRIM', changes, 0, 19)
end
-- Until when the one probe has its lease; nil where none is under way.
local function probe_end(probe)
  local token, asset = string.match(probe or '', '^(%S+) (.*)$')
  local packed = asset and redis.call('HGET', base .. 'flight', asset)
  if not packed then return nil end
  local holder, lease = string.match(packed, '^(%S+) (%d+)')
  return holder == token and tonumber(lease) > now and tonumber(lease) or nil
end
-- A new URL, or none: health starts anew, and no answer of the older URL counts any more.
local function new_generation()
  enter('active')
  redis.call('HDEL', E, 'not_before', 'last_error', 'last_status', 'last_failure_at', 'last_success_at')
  return redis.call('HINCRBY', E, 'generation', 1)
end
-- What waits for a later time is due now, in the order of "owed since"; bounded, the rest keeps its time.
local function pull_forward()
  for _, lane in ipairs({'live', 'backfill'}) do
    local later = redis.call('ZRANGEBYSCORE', base .. 'due:' .. lane, now + 1, '+inf', 'LIMIT', 0, 2000)
    for _, asset in ipairs(later) do
      local since = redis.call('ZSCORE', base .. 'owed-since', asset)
      if since then redis.call('ZADD', base .. 'due:' .. lane, math.min(tonumber(since), now), asset) end
    end
  end
end
-- A time at which catch-up must look; answers 1 when it must be woken for it.
local function wake_by(at)
  local sleeping = tonumber(redis.call('HGET', E, 'catch_up_until') or '-1')
  -- Five seconds past the time it slept until, nobody seems to be there.
  if sleeping > now - 5000 and sleeping <= at then return 0 end
  redis.call('HSET', E, 'catch_up_until', at)
  return 1
end
`;
