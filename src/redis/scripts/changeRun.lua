-- Changes the state of a run, for an operator. A cancelled run stays cancelled, and only a cancelled run can be forgotten.
-- KEYS: the run
-- Arguments: to ('active', 'paused', 'cancelled', 'forgotten'), at (ms)
-- Answer: {state before ('': there is no such run), version of the state now; 0 if the change was refused}
-- Repeat: safe: it sets the same again, under a newer version

local to, at = ARGV[1], ARGV[2]
local first_at, before = unpack(redis.call('HMGET', KEYS[1], 'first_at', 'state'))
if not first_at then return {'', 0} end
before = before or 'active'
local is_cancelled = before == 'cancelled'
if to == 'forgotten' and not is_cancelled then return {before, 0} end
if is_cancelled and (to == 'active' or to == 'paused') then return {before, 0} end
if to == 'forgotten' then redis.call('HSET', KEYS[1], 'forgot_at', at)
elseif to ~= before then redis.call('HSET', KEYS[1], 'state', to, 'state_at', at) end
return {before, redis.call('HINCRBY', KEYS[1], 'version', 1)}
