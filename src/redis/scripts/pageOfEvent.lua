-- Searches a page of the list of notifications, the newest first, for the notification of an event.
-- include: client, table, notification, place
-- KEYS: the client's base
-- Arguments, in q:
--   score, member: the place after which the page begins
--   count: how many to read
--   event: its id
-- Answer: {id of the first that names the event}, or {'', how many there were, the last of them and its score}
-- Repeat: safe: it changes nothing

local found = page_behind(base .. 'notifications', 'falling', q.score, q.member, q.count)
for i = 1, #found, 2 do
  if redis.call('HGET', record(found[i]), 'event') == q.event then return {found[i]} end
end
return {'', #found / 2, found[#found - 1] or '', found[#found] or '0'}
