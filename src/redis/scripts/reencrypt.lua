-- Replaces a signing secret or request header with the same one encrypted with another key, unless it changed or ended meanwhile.
-- include: client
-- KEYS: the client's base
-- Arguments: name (of the field), before, after (sealed)
-- Answer: 1 if it was replaced, else 0
-- Repeat: safe: it is replaced once

local name, before, after = ARGV[2], ARGV[3], ARGV[4]
local S = base .. 'signing-secrets'
if redis.call('HGET', S, name) ~= before then return 0 end
redis.call('HSET', S, name, after)
return 1
