-- Reads the sizes of a client's owed assets, all at the same moment.
-- include: client
-- KEYS: the client's base
-- Arguments: none
-- Answer: {owed, owed since, due, ms until the last lease ends, listed, when the oldest listed was accepted or 0}
-- Repeat: safe: it changes nothing

local longest, flights = 0, redis.call('HVALS', base .. 'flight')
for _, packed in ipairs(flights) do
  longest = math.max(longest, tonumber(string.match(packed, '^%S+ (%d+)')) - now)
end
local oldest = redis.call('ZRANGE', base .. 'notifications', 0, 0, 'WITHSCORES')
return {
  redis.call('HLEN', base .. 'owed'), redis.call('ZCARD', base .. 'owed-since'),
  redis.call('ZCARD', base .. 'due:live') + redis.call('ZCARD', base .. 'due:backfill'),
  longest,
  redis.call('ZCARD', base .. 'notifications'), oldest[2] and tonumber(oldest[2]) or 0,
}
