-- Writes a notice to the endpoint's hash, where src/redis/records/notices.ts reads it.

-- Returns the time of the endpoint's first failure since its last success (`otherwise` if there is none), and the number of
-- failed attempts since. Call it before `enter`.
local function failed_so_far(otherwise)
  return tonumber(field('first_failure_at') or otherwise), number('attempts_failed')
end
-- Writes the notice to the field of this name. It replaces an older one: only the newest counts.
local function owe_notice(name, kind, reason, since, attempts_failed)
  redis.call('HSET', E, name, cjson.encode({
    kind = kind, at = now, reason = reason, since = since, attempts_failed = attempts_failed,
  }))
end
-- Writes the notice of a rotated secret.
local function owe_secret_notice(reason)
  owe_notice('secret_notice', 'secret.rotated', reason, failed_so_far(now))
end
-- Removes a notice that was claimed, unless a newer one has replaced it meanwhile.
-- Arguments: name (of the field), notice (JSON)
-- Answer: 1 if it was removed, else 0
entry('dropNotice', function(_, ARGV)
  if redis.call('HGET', E, ARGV[2]) ~= ARGV[3] then return 0 end
  return redis.call('HDEL', E, ARGV[2])
end)
