-- Removes some of the sets of known segments of a deleted client.
-- include: client
-- KEYS: the client's base
-- Arguments: count
-- Answer: {how many were removed, 1 if there are more}
-- Repeat: safe: each is removed once

local count = ARGV[2]
local some = redis.call('SPOP', base .. 'known-beside', count)
for _, name in ipairs(some) do redis.call('UNLINK', base .. 'known:' .. name) end
return {#some, redis.call('EXISTS', base .. 'known-beside')}
