-- Takes an owed notice away, or puts what is left of it in its place, unless a newer one stands there meanwhile.
-- include: client, endpoint
-- KEYS: the client's base
-- Arguments: name (of the field), before, after (JSON; '': none)
-- Answer: 1 where it was replaced, else 0
-- Repeat: safe: it is replaced once

local name, before, after = ARGV[2], ARGV[3], ARGV[4]
if redis.call('HGET', E, name) ~= before then return 0 end
if after == '' then redis.call('HDEL', E, name) else redis.call('HSET', E, name, after) end
return 1
