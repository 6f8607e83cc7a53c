-- The feed of a client's updates.

-- Adds an update to the feed (src/redis/notifications/updates.ts), which keeps the newest 100,000 and one more.
local has_updates
at_begin(function() has_updates = false end)
local function add_update(id, asset)
  redis.call('XADD', base .. 'updates', 'MAXLEN', '~', '100001', '*', 'id', id, 'asset', asset)
  has_updates = true
end
-- Wakes the callers who wait for updates, once: each that waits again notes that again. A server that refuses PUBLISH fails no claim.
local function tell_updates()
  if not has_updates or health().updates_awaited_until <= now then return end
  redis.call('HDEL', E, 'updates_awaited_until')
  redis.pcall('PUBLISH', base .. 'updates', '')
end
-- Notes that a caller waits for the client's next update.
-- Arguments: the position after which the caller reads, for how long (ms) the caller waits
-- Answer: 1 if there are updates after it (nothing is noted), else 0
entry('awaitUpdates', function(_, ARGV)
  local last = redis.call('XREVRANGE', base .. 'updates', '+', '-', 'COUNT', 1)[1]
  if (last and last[1] or '0-0') ~= ARGV[2] then return 1 end
  local till = math.max(health().updates_awaited_until, now + tonumber(ARGV[3]))
  if limits().is_known then redis.call('HSET', E, 'updates_awaited_until', till) end
  return 0
end, {'allow-oom'})
