-- Reads a page of waiting assets, the latest owed first, and all assets in flight.
-- include: client, notification, place
-- KEYS: the client's base
-- Arguments: score, member (the place after which the page begins), count
-- Answer: {asset and score of the last one read ({}: no more), {asset, id, owed since, accepted at} of each that
--   waits, the same of each in flight}
-- Repeat: safe: it changes nothing

local score, member, count = ARGV[2], ARGV[3], tonumber(ARGV[4])
local waiting, held = {}, {}
local found = page_behind(base .. 'owed-since', 'falling', score, member, count)
local function entry(asset, id, since)
  return {asset, id, since, redis.call('HGET', record(id), 'accepted_at') or ''}
end
for i = 1, #found, 2 do
  local id = redis.call('HGET', base .. 'owed', found[i])
  if id then waiting[#waiting + 1] = entry(found[i], id, found[i + 1]) end
end
for _, asset in ipairs(redis.call('HKEYS', base .. 'flight')) do
  local f = flight_of(asset)
  local id = f and owed_id(asset, f)
  if id then held[#held + 1] = entry(asset, id, f.since) end
end
return {#found == 2 * count and {found[#found - 1], found[#found]} or {}, waiting, held}
