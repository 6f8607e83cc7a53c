-- Removes a client that is owed nothing from the index, unless a claim was announced recently.
-- include: client
-- KEYS: the index of owed clients
-- Arguments: client_token, unclaimed_ms (an announcement of that age or newer counts)
-- Answer: 1 if it was removed, else 0
-- Repeat: safe: it is removed once

local client_token, unclaimed_ms = ARGV[2], tonumber(ARGV[3])
local at = redis.call('ZSCORE', KEYS[1], client_token)
if at and tonumber(at) < now - unclaimed_ms then return redis.call('ZREM', KEYS[1], client_token) end
return 0
