-- Reads a page of the list of notifications, the newest first, and returns those delivered in a span of time.
-- include: client, table, notification, place
-- KEYS: the client's base
-- Arguments, in q:
--   score, member: the place after which the page begins
--   count: how many to read
--   since, latest: delivered in this time, ms
-- Answer: {how many there were, the last of them and its score, {asset and id of each that was delivered then, in turn}}
-- Repeat: safe: it changes nothing

local delivered = {}
local found = page_behind(base .. 'notifications', 'falling', q.score, q.member, q.count)
for i = 1, #found, 2 do
  local r = redis.call('HMGET', record(found[i]), 'asset', 'state', 'ended_at')
  if r[1] and r[2] == 'delivered' and tonumber(r[3]) >= q.since and tonumber(r[3]) <= q.latest then
    delivered[#delivered + 1], delivered[#delivered + 2] = r[1], found[i]
  end
end
return {#found / 2, found[#found - 1] or '', found[#found] or '0', delivered}
