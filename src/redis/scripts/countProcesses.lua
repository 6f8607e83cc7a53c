-- Counts the processes that start workflows, and notes that the caller is one of them. It removes those that were silent for too
-- long, unless the caller was silent or unknown itself: then Redis may have been away, and the others could not say anything either.
-- include: client
-- KEYS: the processes
-- Arguments: id (of the caller), silent_ms (after so long without a word a process has ended)
-- Answer: {how many run, 1 if the others had time to say that they run, else 0}
-- Repeat: safe: the caller counts once

local id, silent_ms = ARGV[2], tonumber(ARGV[3])
local said_at = redis.call('ZSCORE', KEYS[1], id)
redis.call('ZADD', KEYS[1], now, id)
local had_time = said_at and now - tonumber(said_at) <= silent_ms
if had_time then redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - silent_ms) end
return {redis.call('ZCARD', KEYS[1]), had_time and 1 or 0}
