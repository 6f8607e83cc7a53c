-- Reads a page of the list of notifications, the oldest first, for a reader of the feed, and notes how far readers have
-- seen: a claim that would come to stand before that enters the stream of updates besides (claim.lua).
-- include: client, table, endpoint, notification, place
-- KEYS: the client's base
-- Arguments, in q:
--   score, member: the place behind which the page begins
--   count: how many to look at
-- Answer: {1 where the place's own member is there, or it is the start and nothing has been cut off, how many were looked at,
--   id and score of the last of them, how many have no record any more, {id, score, asset of each update in turn}}
-- Repeat: safe: it lists the same, and what has come since

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
