-- Reads and changes an endpoint's hash, whose fields src/redis/connection/fields.ts lists.
-- The endpoint's clock runs while there is a URL that is neither paused, held nor suspended.
-- include: client

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
-- Returns the state that people see.
local function seen()
  if redis.call('HEXISTS', base .. 'registration', 'url') == 0 then return 'not_registered' end
  if field('paused') == '1' or field('held') == '1' then return 'paused' end
  return state()
end
-- Records a change of the state that people see, the newest first.
local function note_change(from, why, by)
  local to = seen()
  if from == to then return end
  local changes = base .. 'state-changes'
  redis.call('LPUSH', changes, cjson.encode({at = now, from = from, to = to, why = why, by = by}))
  redis.call('LTRIM', changes, 0, 19)
end
-- Returns when the lease of the one probe ends; nil if none is under way.
local function probe_end(probe)
  local token, asset = string.match(probe or '', '^(%S+) (.*)$')
  local packed = asset and redis.call('HGET', base .. 'flight', asset)
  if not packed then return nil end
  local holder, lease = string.match(packed, '^(%S+) (%d+)')
  return holder == token and tonumber(lease) > now and tonumber(lease) or nil
end
-- Starts again with another URL, or with none: answers of the older URL no longer count.
local function new_generation()
  enter('active')
  redis.call('HDEL', E, 'not_before', 'last_error', 'last_status', 'last_failure_at', 'last_success_at')
  return redis.call('HINCRBY', E, 'generation', 1)
end
-- Makes the first 2,000 assets that wait for a later time due, in the order of "owed since"; the rest keep their time.
local function pull_forward()
  for _, lane in ipairs({'due:live', 'due:backfill'}) do
    local later = redis.call('ZRANGEBYSCORE', base .. lane, now + 1, '+inf', 'LIMIT', 0, 2000)
    for _, asset in ipairs(later) do
      local since = redis.call('ZSCORE', base .. 'owed-since', asset)
      if since then redis.call('ZADD', base .. lane, math.min(tonumber(since), now), asset) end
    end
  end
end
-- Notes a time at which catch-up must plan; returns 1 if it must be woken for that.
local function wake_by(at)
  local sleeping = tonumber(redis.call('HGET', E, 'catch_up_until') or '-1')
  -- Five seconds after the time until which it slept, it counts as not running.
  if sleeping > now - 5000 and sleeping <= at then return 0 end
  redis.call('HSET', E, 'catch_up_until', at)
  return 1
end
