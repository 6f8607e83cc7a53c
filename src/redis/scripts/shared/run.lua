-- Counts what an analysis run has come to at this client. Its counts and the segments that it brought go 14 days after it
-- is owed nothing any more.
-- include: client

local function age_run(run)
  if redis.call('EXISTS', base .. 'run-owed:' .. run) == 1 then return end
  redis.call('EXPIRE', base .. 'run:' .. run, '1209600')
  redis.call('EXPIRE', base .. 'run-known:' .. run, '1209600')
end
-- Counts a notification of a run that has ended.
local function end_of_run(run, id, state)
  redis.call('SREM', base .. 'run-owed:' .. run, id)
  redis.call('HINCRBY', base .. 'run:' .. run, state, 1)
  age_run(run)
end
