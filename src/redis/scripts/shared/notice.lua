-- Writes a notice to the endpoint's hash, where src/redis/records/notices.ts reads it.
-- include: client, endpoint

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
