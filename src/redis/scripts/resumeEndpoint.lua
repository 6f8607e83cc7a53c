-- Makes a suspended or failing endpoint due for a probe now.
-- include: client, endpoint
-- KEYS: the client's base
-- Arguments: by ('operator' or 'publisher')
-- Answer: 1, or 0 if it is active
-- Repeat: safe: it is due for a probe again

local by = ARGV[2]
local was, from = state(), seen()
if was == 'active' then
  redis.call('HDEL', E, 'not_before')
  return 0
end
if was == 'suspended' then
  -- The past failures no longer count: a failing probe does not suspend it again immediately.
  redis.call('HSET', E, 'attempts_failed', 0)
  redis.call('HDEL', E, 'first_failure_at', 'first_failure_clock')
end
-- If it is already failing, a probe under way stays the one probe.
if was ~= 'failing' then enter('failing') end
redis.call('HSET', E, 'probe_step', 1, 'probe_at', now)
redis.call('HDEL', E, 'not_before')
note_change(from, 'resumed', by)
return 1
