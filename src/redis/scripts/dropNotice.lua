-- Removes a notice that was claimed, unless a newer one has replaced it meanwhile.
-- include: client, endpoint
-- KEYS: the client's base
-- Arguments: name (of the field), notice (JSON)
-- Answer: 1 if it was removed, else 0
-- Repeat: safe: it is removed once

local name, notice = ARGV[2], ARGV[3]
if redis.call('HGET', E, name) ~= notice then return 0 end
return redis.call('HDEL', E, name)
