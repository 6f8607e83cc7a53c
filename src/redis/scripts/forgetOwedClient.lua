-- Removes a client that is owed nothing from the index, unless a claim was announced recently.
-- KEYS: the index of owed clients
-- Arguments: client_token, before (ms): an announcement since then counts
-- Answer: 1 if it was removed, else 0
-- Repeat: safe: it is removed once

local client_token, before = ARGV[1], tonumber(ARGV[2])
local at = redis.call('ZSCORE', KEYS[1], client_token)
if at and tonumber(at) < before then return redis.call('ZREM', KEYS[1], client_token) end
return 0
