-- Takes a token from the client's bucket of calls that send something. It holds `burst` tokens and gets one every `every`
-- ms; kept is the time at which it is full again (GCRA, as in ATM's "generic cell rate algorithm").
-- include: client
-- KEYS: the client's base
-- Arguments: every (ms), burst
-- Answer: 0, or the ms after which there is a token
-- Repeat: takes another token

local every, burst = tonumber(ARGV[2]), tonumber(ARGV[3])
local key = base .. 'send-limit'
local full_at = math.max(tonumber(redis.call('GET', key) or '0'), now)
local wait = full_at - (burst - 1) * every - now
if wait > 0 then return wait end
redis.call('SET', key, full_at + every, 'PX', full_at + every - now)
return 0
