-- Permits an attempt of a notice, unless its receiver asked to wait, or is failing and another attempt is under way.
-- include: client
-- KEYS: the base of a recipient of notices
-- Arguments: failing_after (failed attempts in a row), lease_ms (how long the one attempt to a failing receiver may take)
-- Answer: 0, or the time to wait, ms
-- Repeat: to a failing receiver a second call waits for the first one's lease

local failing_after, lease_ms = tonumber(ARGV[2]), tonumber(ARGV[3])
local N = redis.call('HMGET', base .. 'notices', 'not_before', 'failures')
local wait = tonumber(N[1] or '0') - now
if wait > 0 then return wait end
if tonumber(N[2] or '0') >= failing_after then redis.call('HSET', base .. 'notices', 'not_before', now + lease_ms) end
return 0
