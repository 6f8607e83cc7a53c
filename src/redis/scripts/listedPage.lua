-- Reads a page of the list of notifications, the newest first, and returns those that match.
-- include: client, table, notification, place
-- KEYS: the client's base
-- Arguments, in q:
--   score, member: the place after which the page begins
--   count: how many to read
--   state, asset, event: '' for any
-- Answer: {id and score of the last one read ({}: no more), {id, score of each match in turn}}
-- Repeat: safe: it changes nothing

local matching = {}
local found = page_behind(base .. 'notifications', 'falling', q.score, q.member, q.count)
for i = 1, #found, 2 do
  local asset, state, event = unpack(redis.call('HMGET', record(found[i]), 'asset', 'state', 'event'))
  if asset and (q.state == '' or q.state == (state or 'waiting')) and (q.asset == '' or q.asset == asset)
    and (q.event == '' or q.event == event) then
    matching[#matching + 1], matching[#matching + 2] = found[i], found[i + 1]
  end
end
return {#found == 2 * q.count and {found[#found - 1], found[#found]} or {}, matching}
