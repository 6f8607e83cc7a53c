-- The feed of a client's updates: each asset once, by the position of its newest update. Positions rise strictly, also while the clock is
-- set back: Redis' time in us when the update was claimed, or the next number.

local last_position
at_begin(function() last_position = nil end)
-- Returns the newest position. The feed no longer has it if its asset was forgotten.
local function feed_end()
  return math.max(tonumber(redis.call('ZREVRANGE', base .. 'feed', 0, 0, 'WITHSCORES')[2] or 0), health().feed_end)
end
-- The times of an asset's updates rise by at least 1 us, unless the clock was set back by more than this (us).
local RISES_WITHIN = 10000000
-- Adds an update to the feed. Returns what is known of it: when it was claimed (us, 7 bytes), and whether a notification was made (1);
-- and that time as the request says it, in ms.
local function add_update(asset, before, is_notified)
  last_position = math.max((last_position or feed_end()) + 1, now * 1000)
  redis.call('ZADD', base .. 'feed', string.format('%.0f', last_position), asset)
  local at, last = now * 1000, struct.unpack('>I7', before)
  if last >= at and last < at + RISES_WITHIN then at = last + 1 end
  local said = string.format(at % 1000 > 0 and '%.0f.%03d' or '%.0f', math.floor(at / 1000), at % 1000)
  return struct.pack('>I7B', at, is_notified and 1 or 0), said
end
local function drop_update(asset)
  local position = redis.call('ZSCORE', base .. 'feed', asset)
  if not position then return end
  if tonumber(position) >= feed_end() then note('feed_end', position) end
  redis.call('ZREM', base .. 'feed', asset)
end
-- Wakes the callers who wait for updates, once: each that waits again notes that again. A server that refuses PUBLISH fails no claim.
local function tell_updates()
  if not last_position or health().updates_awaited_until <= now then return end
  change('HDEL', E, 'updates_awaited_until')
  redis.pcall('PUBLISH', base .. 'updates', '')
end
-- Reads a page of the feed after a position; 0: from its beginning.
-- Arguments: position, the asset that was there ('': none was), its bucket, its field in it (8 bytes), count, for how long (ms) segments are
--   known (0: for good), '1' if the position is a cursor's: another may lie in a time whose updates are gone
-- Answer: {1 if updates after the position may be gone, else 0; asset and position in turn}. They are gone where segments' time is over, and
--   where Redis has lost some: then it knows less of the asset than whoever was given the position.
entry('readUpdates', function(_, ARGV)
  local after, asset, kept_ms, is_cursor = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[7]), ARGV[8] == '1'
  local is_gone, newest = false, feed_end()
  if is_cursor and kept_ms > 0 and after > 0 and after < (now - kept_ms) * 1000 then is_gone = after < newest
  elseif asset ~= '' then
    local there = tonumber(redis.call('ZSCORE', base .. 'feed', asset) or nil)
    if there then is_gone = there < after
    else is_gone = after > newest or redis.call('HEXISTS', base .. 'known:' .. ARGV[4], ARGV[5]) == 0 end
  end
  return {is_gone and 1 or 0, unpack(redis.call('ZRANGEBYSCORE', base .. 'feed', '(' .. ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[6]))}
end, {'no-writes'})
-- Removes assets of which nothing is known any more: the time of their segments is over.
-- Arguments: of each: asset, its bucket, its field in it (8 bytes)
entry('dropUpdates', function(_, ARGV)
  for i = 2, #ARGV, 3 do
    if redis.call('HEXISTS', base .. 'known:' .. ARGV[i + 1], ARGV[i + 2]) == 0 then drop_update(ARGV[i]) end
  end
end, {'allow-oom'})
-- Notes that a caller waits for the client's next update.
-- Arguments: the position after which the caller reads, for how long (ms) the caller waits
-- Answer: 1 if there are updates after it (nothing is noted), else 0
entry('awaitUpdates', function(_, ARGV)
  if redis.call('ZCOUNT', base .. 'feed', '(' .. ARGV[2], '+inf') > 0 then return 1 end
  local till = math.max(health().updates_awaited_until, now + tonumber(ARGV[3]))
  if limits().is_known then change('HSET', E, 'updates_awaited_until', till) end
  return 0
end, {'allow-oom'})
