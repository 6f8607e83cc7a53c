-- Reads a page of the list of notifications for a reader of the feed, oldest first, and stores the latest time that readers
-- have seen: a claim whose place would be before that time is also added to the stream of updates (claim.lua).
-- include: client, table, endpoint, notification, place
-- KEYS: the client's base
-- Arguments, in q:
--   score, member: the place after which the page begins
--   count: how many entries to read
-- Answer: {1 if the place's own member exists, or if it is the start and nothing was cut off, how many entries were read,
--   id and score of the last of them, how many records of them are gone, {id, score, asset of each update in turn}}
-- Repeat: safe: it lists the same entries, and newer ones

local log = base .. 'notifications'
local is_there
if q.member == '' then is_there = redis.call('ZCARD', log) < 10000
else is_there = tonumber(redis.call('ZSCORE', log, q.member) or '-1') == tonumber(q.score) end
local found = page_behind(log, 'rising', q.score, q.member, q.count)
local updates, gone = {}, 0
for i = 1, #found, 2 do
  local r = redis.call('HMGET', record(found[i]), 'asset', 'state')
  if not r[1] then gone = gone + 1
  elseif r[2] ~= 'not_needed' then
    updates[#updates + 1], updates[#updates + 2], updates[#updates + 3] = found[i], found[i + 1], r[1]
  end
end
local last = found[#found]
if last and tonumber(last) > number('updates_until') then redis.call('HSET', E, 'updates_until', last) end
return {is_there and 1 or 0, #found / 2, found[#found - 1] or '', last or '0', gone, updates}
