-- Reads a client's owed assets and when the next attempt can be made, after ending holds whose lease is over.
-- include: client, notification, endpoint
-- KEYS: the client's base
-- Arguments: retention_ms
-- Answer: {owed, ms overdue, ms since catch-up planned or -1, age of the oldest (ms), whether owed and due agree}
-- Repeat: safe: a lease ends once

local retention_ms = tonumber(ARGV[2])
land_expired()
write_waiting()
local owed = owed_count()
local waiting = redis.call('HLEN', base .. 'owed')
local consistent = waiting == redis.call('ZCARD', base .. 'owed-since')
  and waiting == redis.call('ZCARD', base .. 'due:live') + redis.call('ZCARD', base .. 'due:backfill') and 1 or 0
if owed == 0 then return {0, 0, -1, 0, consistent} end
local next_at = math.huge
for _, lane in ipairs({'due:live', 'due:backfill'}) do
  local first = redis.call('ZRANGE', base .. lane, 0, 0, 'WITHSCORES')
  if first[2] then next_at = math.min(next_at, tonumber(first[2])) end
end
-- All assets are in flight: the next event is the end of a lease.
if next_at == math.huge then return {owed, -1, 0, 0, consistent} end
local oldest = tonumber(redis.call('ZRANGE', base .. 'owed-since', 0, 0, 'WITHSCORES')[2] or now)
local expires = oldest + retention_ms
if redis.call('HEXISTS', base .. 'registration', 'url') == 0 or field('paused') == '1' or field('held') == '1'
  or state() == 'suspended' then next_at = expires end
next_at = math.max(next_at, number('not_before'))
if state() == 'failing' then next_at = math.max(next_at, number('probe_at')) end
-- After a pause, a new URL or an outage, nothing is overdue from before its end.
next_at = math.max(math.min(next_at, expires), number('recovered_at'))
local planned = number('planned_at')
return {owed, now - next_at, planned > 0 and now - planned or -1, now - oldest, consistent}
