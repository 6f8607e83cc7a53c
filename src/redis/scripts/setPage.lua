-- Reads the next members of one of a client's sorted sets.
-- include: client, table, place
-- KEYS: the client's base
-- Arguments, in q:
--   set: name of the sorted set
--   direction: 'rising' or 'falling'
--   score, member: the place after which the page begins
--   count: how many at most
-- Answer: members and scores in turn
-- Repeat: safe: it changes nothing

return page_behind(base .. q.set, q.direction, q.score, q.member, q.count)
