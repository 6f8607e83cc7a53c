-- Copies the state of a run to a client: its hold.
-- include: client, endpoint, notification
-- KEYS: the client's base
-- Arguments: run, version (of the run's state), hold ('paused', 'cancelled', '': nothing)
-- Answer: 1, or 0 if there is no such client or the client has a newer version
-- Repeat: safe: it sets the same again

local run, version, hold = ARGV[2], ARGV[3], ARGV[4]
local key = base .. 'run:' .. run
local account, is_deleted = unpack(redis.call('HMGET', base .. 'client', 'account_id', 'deleted'))
if not account or is_deleted then return 0 end
if tonumber(redis.call('HGET', key, 'version') or '0') > tonumber(version) then return 0 end
redis.call('HSET', key, 'version', version)
if hold == '' then
  redis.call('HDEL', key, 'hold')
  redis.call('SREM', base .. 'held-runs', run)
else
  redis.call('HSET', key, 'hold', hold)
  redis.call('SADD', base .. 'held-runs', run)
end
age_run(run)
redis.call('HSET', E, 'held_runs', redis.call('SCARD', base .. 'held-runs'))
return 1
