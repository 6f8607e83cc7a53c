-- Owes a notice in the endpoint's hash: src/redis/records/owedNotices.ts reads it there.
-- include: client, endpoint

-- Answers since when the endpoint has taken nothing (`otherwise` where that is not known), and how many attempts have
-- failed since. Read it before `enter`.
local function failed_so_far(otherwise)
  return tonumber(field('first_failure_at') or otherwise), number('attempts_failed')
end
-- Owes the notice of this name. It takes the place of one that is still there: only the newest counts.
local function owe_notice(name, kind, reason, since, attempts_failed)
  redis.call('HSET', E, name, cjson.encode({
    kind = kind, at = now, reason = reason, since = since, attempts_failed = attempts_failed,
  }))
end
