-- Has what is kept of a run at this client go 14 days after it is owed nothing any more.
-- include: client, notification

local function age_run(run)
  if redis.call('EXISTS', base .. 'run-owed:' .. run) == 1 then return end
  redis.call('EXPIRE', base .. 'run:' .. run, KEEP_SECONDS)
  redis.call('EXPIRE', base .. 'run-known:' .. run, KEEP_SECONDS)
end
