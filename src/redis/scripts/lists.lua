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
-- Returns the same of two pages.
local function both(a, b, count)
  local out, i, j = {}, 1, 1
  while #out < 2 * count and (a[i] or b[j]) do
    local x, y = tonumber(a[i + 1] or -1), tonumber(b[j + 1] or -1)
    if x > y or x == y and not is_less(a[i], b[j]) then
      out[#out + 1], out[#out + 2], i = a[i], a[i + 1], i + 2
    else
      out[#out + 1], out[#out + 2], j = b[j], b[j + 1], j + 2
    end
  end
  return out
end
local LISTS = {accepted = 'notifications', owed_since = 'owed-since', failed_at = 'failed-at'}
-- Reads a page of a list, the latest first, and returns what matches.
-- Arguments: list, score, member (the position after which the page begins), count (how many to read), kept_ms (older failures are left
--   out); then, of the accepted ones, state, asset, event ('' for any), of the failed ones the asset
-- Answer: JSON of `Page` of src/redis/notifications/notificationPages.ts. Each page of what is owed has all assets in flight.
entry('listPage', function(_, ARGV)
  local order, count, kept_ms, state, asset, event = ARGV[2], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8], ARGV[9]
  local key, entries, found = base .. LISTS[order], {}, nil
  local function add_entry(member, score, id, accepted_at)
    entries[#entries + 1] = {member = member, score = tonumber(score), notificationId = id, acceptedAt = tonumber(accepted_at or 0)}
  end
  if order == 'failed_at' and asset ~= '' then found = {asset, redis.call('ZSCORE', key, asset)}
  else found = page_behind(key, ARGV[3], ARGV[4], count) end
  if order == 'accepted' then
    local beside = page_behind(base .. 'unlisted', ARGV[3], ARGV[4], count)
    if #beside > 0 then found = both(found, beside, count) end
  end
  for i = 1, #found, 2 do
    local member, score = found[i], found[i + 1]
    if order == 'accepted' then
      local of, is, by = unpack(redis.call('HMGET', record(member), 'asset', 'state', 'event'))
      local f = not of and failed_by(member)
      if f then of, is, by = f.asset, 'failed', f.event end
      local matches = of and (state == '' or state == (is or 'waiting')) and (asset == '' or asset == of)
      if matches and (event == '' or event == by) then add_entry(member, score, member, score) end
    elseif order == 'owed_since' then
      local id = redis.call('HGET', base .. 'owed', member)
      if id then add_entry(member, score, id, redis.call('HGET', record(id), 'accepted_at')) end
    else
      local f = tonumber(score or '0') > now - kept_ms and failed_of(member)
      if f then add_entry(member, score, f.id, f.accepted_at) end
    end
  end
  if order == 'owed_since' then
    for _, held in ipairs(redis.call('HKEYS', base .. 'flight')) do
      local id, f = owed_by(held)
      if id then add_entry(held, f.since, id, redis.call('HGET', record(id), 'accepted_at')) end
    end
  end
  return cjson.encode({
    entries = #entries > 0 and entries or nil,
    last = #found == 2 * count and {member = found[#found - 1], score = tonumber(found[#found])} or nil,
  })
end, {'no-writes'})
