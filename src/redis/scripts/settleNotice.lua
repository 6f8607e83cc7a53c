-- Writes the result of an attempt of a notice to its receiver's record, unless another URL has been set meanwhile.
-- include: client, table
-- KEYS: the base of a recipient of notices
-- Arguments, in q:
--   set_at: when the URL of the attempt was set ('' if it is a setting)
--   ok: whether it was answered 2xx
--   error, status: of a failed attempt
--   retry_after: ms, 0 for none
-- Answer: 1, or 0 if the URL is another one
-- Repeat: counts a failure twice, so the receiver only counts as failing earlier

if (redis.call('HGET', base .. 'notices', 'set_at') or '') ~= q.set_at then return 0 end
if q.ok then
  redis.call('HSET', base .. 'notices', 'last_success_at', now, 'failures', 0)
  redis.call('HDEL', base .. 'notices', 'not_before')
  return 1
end
redis.call('HINCRBY', base .. 'notices', 'failures', 1)
redis.call('HSET', base .. 'notices', 'last_failure_at', now, 'last_error', q.error, 'last_status', q.status)
if q.retry_after > 0 then
  local until_ms = math.max(tonumber(redis.call('HGET', base .. 'notices', 'not_before') or '0'), now + q.retry_after)
  redis.call('HSET', base .. 'notices', 'not_before', until_ms)
end
return 1
