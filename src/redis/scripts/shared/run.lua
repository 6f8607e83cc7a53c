-- Lets the keys of a run at this client expire 14 days after its last owed notification has ended.
-- include: client, notification

local function age_run(run)
  if redis.call('EXISTS', base .. 'run-owed:' .. run) == 1 then return end
  redis.call('EXPIRE', base .. 'run:' .. run, KEEP_SECONDS)
  redis.call('EXPIRE', base .. 'run-known:' .. run, KEEP_SECONDS)
end
