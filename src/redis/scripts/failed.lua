-- Keeps the assets whose newest notification has failed, beside what is owed (`failed`, `failed-at`; notification.lua).

-- Removes failed assets that have been kept for long enough, at most 200: Redis would remove all of them if its clock were ahead for a moment.
-- Arguments: kept_ms
-- Answer: how many were removed
entry('trimFailed', function(_, ARGV)
  if not is_sure() then return 0 end
  local old = redis.call('ZRANGEBYSCORE', base .. 'failed-at', '-inf', now - tonumber(ARGV[2]), 'LIMIT', 0, 200)
  for _, asset in ipairs(old) do
    local f = failed_of(asset) or {id = ''}
    drop_failed(asset, f.id)
    redis.call('ZREM', base .. 'unlisted', f.id)
  end
  trim_list()
  return #old
end)
-- Notes that the notification of an asset has failed, and owes the notice of that: at most one waits. Those of clients of notices, which
-- have a body, make none. The record says since when they have not arrived, for as long as it is there.
local function note_failed(asset, id, entry_before, reason)
  local accepted_at, event, body, updated_at = unpack(redis.call('HMGET', record(id), 'accepted_at', 'event', 'body', 'updated_at'))
  local first = first_time(entry_before.since)
  if accepted_at then redis.call('HSET', record(id), 'since', first) end
  if body then return redis.call('ZREM', base .. 'unlisted', id) end
  accepted_at = accepted_at or now
  local packed = string.format('%s %s %s %d %d %s %s', id, reason, entry_before.lane, accepted_at, first, updated_at or accepted_at, event or '')
  count('failed', redis.call('HSET', base .. 'failed', asset, packed))
  redis.call('HSET', base .. 'failed-ids', id, asset)
  redis.call('ZADD', base .. 'failed-at', now, asset)
  local waiting_notice = field('failed_notice')
  owe_notice('failed_notice', 'notifications.failed', reason, waiting_notice and cjson.decode(waiting_notice).since or now, 0)
end

-- Lets failed assets go, the oldest first: their notifications end as cancelled.
-- Arguments: since, until (ms, of the failure), count (at most so many)
-- Answer: {how many were let go, how many failed in that time are left}
-- Repeat: safe: a repeat continues with those that are left
entry('dismissFailed', function(_, ARGV)
  local assets = redis.call('ZRANGEBYSCORE', base .. 'failed-at', ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
  for _, asset in ipairs(assets) do
    local f = failed_of(asset)
    finish(f.id, 'cancelled', nil, 'dismissed', f.since)
    drop_failed(asset, f.id)
  end
  trim_list()
  return {#assets, redis.call('ZCOUNT', base .. 'failed-at', ARGV[2], ARGV[3])}
end, {'allow-oom'})

-- Makes a failed asset owed again, by its entry, and writes its record anew where that is gone; `trim_list` must follow in the same call.
local function recover(asset, f)
  if redis.call('EXISTS', record(f.id)) == 1 then reopen(f.id)
  else
    local fields = {'asset', asset, 'event', f.event, 'accepted_at', f.accepted_at, 'updated_at', f.updated_at, 'group', const.without_workflow, 'again', now}
    if f.lane == 'B' then add(fields, 'priority', 'backfill') end
    redis.call('HSET', record(f.id), unpack(fields))
    redis.call('ZREM', base .. 'unlisted', f.id)
    list(f.id, f.accepted_at)
  end
  set_right()
  owe(asset, f.id, f.lane)
end
-- Makes failed assets owed again, the oldest first.
-- Arguments: since, until (ms, of the failure), count (at most so many)
-- Answer: {how many are owed again, how many failed in that time are left}
-- Repeat: safe: a repeat continues with those that are left
entry('recoverFailed', function(_, ARGV)
  local assets = redis.call('ZRANGEBYSCORE', base .. 'failed-at', ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
  for _, asset in ipairs(assets) do recover(asset, failed_of(asset)) end
  if #assets > 0 then drain() end
  trim_list()
  return {#assets, redis.call('ZCOUNT', base .. 'failed-at', ARGV[2], ARGV[3])}
end)
-- Reads failed notifications whose records are gone.
-- Arguments: kept_ms (older failures are left out), ids
-- Answer: JSON of `KeptFailed` of src/redis/notifications/notifications.ts, {} where none is kept, of each
entry('readFailed', function(_, ARGV)
  local found = {}
  for i = 3, #ARGV do
    local f = failed_by(ARGV[i])
    local ended_at = tonumber(f and redis.call('ZSCORE', base .. 'failed-at', f.asset) or 0)
    found[i - 2] = ended_at > now - tonumber(ARGV[2]) and {
      platformId = f.asset, eventId = f.event, priority = f.lane == 'L' and 'live' or 'backfill', acceptedAt = tonumber(f.accepted_at),
      endedAt = ended_at, reason = f.reason,
    } or {}
  end
  return cjson.encode(found)
end, {'no-writes'})
