-- Removes or replaces an owed notice, unless a newer one has replaced it meanwhile.
-- include: client, endpoint
-- KEYS: the client's base
-- Arguments: name (of the field), before, after (JSON; '': none)
-- Answer: 1 if it was replaced, else 0
-- Repeat: safe: it is replaced only once

local name, before, after = ARGV[2], ARGV[3], ARGV[4]
if redis.call('HGET', E, name) ~= before then return 0 end
if after == '' then redis.call('HDEL', E, name) else redis.call('HSET', E, name, after) end
return 1
