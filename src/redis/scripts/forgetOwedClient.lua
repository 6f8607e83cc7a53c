-- Takes a client that is owed nothing off the index, unless a claim announced itself lately.
-- KEYS: the index of owed clients
-- Arguments: client_token, before (ms): an announcement since then counts
-- Answer: 1 where it was taken off, else 0
-- Repeat: safe: it is taken off once

local client_token, before = ARGV[1], tonumber(ARGV[2])
local at = redis.call('ZSCORE', KEYS[1], client_token)
if at and tonumber(at) < before then return redis.call('ZREM', KEYS[1], client_token) end
return 0
