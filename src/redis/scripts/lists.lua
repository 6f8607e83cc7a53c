-- Reads lists page by page.

-- Compares by bytes, as the sorted set does: Lua's own < uses the server's locale.
local function is_less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end
-- Reads a page of a sorted set after a position, by falling score: n lookups for a set of 2^n, even if many members share a score.
-- Returns alternating members and scores.
local function page_behind(key, score, member, count)
  local low, high = redis.call('ZCOUNT', key, '(' .. score, '+inf'), redis.call('ZCOUNT', key, score, '+inf')
  if member == '' then high = low end
  while low < high do
    local middle = math.floor((low + high) / 2)
    local there = redis.call('ZREVRANGE', key, middle, middle)[1]
    if is_less(there, member) then high = middle else low = middle + 1 end
  end
  return redis.call('ZREVRANGE', key, low, low + count - 1, 'WITHSCORES')
end
-- Returns the last of a full page and its score; nothing if no more follow.
local function last_of(found, count)
  return #found == 2 * count and {found[#found - 1], found[#found]} or {}
end

-- Reads a page of the list of notifications, the newest first, and returns those that match.
-- Arguments: score, member (the position after which the page begins), count (how many to read), state, asset, event ('' for any)
-- Answer: {id and score of the last one read ({}: no more), {id, score of each match in turn}}. At the end it has the notification
--   by which the wanted asset is owed, if the list no longer has it, wherever the page begins.
entry('listedPage', function(_, ARGV)
  local count, wanted_state, wanted_asset, wanted_event = tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7]
  local matching = {}
  local found = page_behind(base .. 'notifications', ARGV[2], ARGV[3], count)
  for i = 1, #found, 2 do
    local asset, state, event = unpack(redis.call('HMGET', record(found[i]), 'asset', 'state', 'event'))
    if asset and (wanted_state == '' or wanted_state == (state or 'waiting'))
      and (wanted_asset == '' or wanted_asset == asset) and (wanted_event == '' or wanted_event == event) then
      matching[#matching + 1], matching[#matching + 2] = found[i], found[i + 1]
    end
  end
  local owed = wanted_asset ~= '' and #found < 2 * count and owed_by(wanted_asset)
  if owed and not redis.call('ZSCORE', base .. 'notifications', owed) then
    matching[#matching + 1], matching[#matching + 2] = owed, redis.call('HGET', record(owed), 'accepted_at')
  end
  return {last_of(found, count), matching}
end, {'no-writes'})
-- Reads a page of waiting assets, the latest owed first, and all assets in flight.
-- Arguments: score, member (the position after which the page begins), count
-- Answer: {asset and score of the last one read ({}: no more), {asset, id, owed since, accepted at} of each that
--   waits, the same of each in flight}
entry('waitingPage', function(_, ARGV)
  local count, waits, under_way = tonumber(ARGV[4]), {}, {}
  local found = page_behind(base .. 'owed-since', ARGV[2], ARGV[3], count)
  local function owed_entry(asset, id, since)
    return {asset, id, since, redis.call('HGET', record(id), 'accepted_at') or ''}
  end
  for i = 1, #found, 2 do
    local id = redis.call('HGET', base .. 'owed', found[i])
    if id then waits[#waits + 1] = owed_entry(found[i], id, found[i + 1]) end
  end
  for _, asset in ipairs(redis.call('HKEYS', base .. 'flight')) do
    local id, f = owed_by(asset)
    if id then under_way[#under_way + 1] = owed_entry(asset, id, f.since) end
  end
  return {last_of(found, count), waits, under_way}
end, {'no-writes'})
