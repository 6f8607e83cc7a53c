-- Stores another signing secret; the former one still signs for a while. Refused while the most previous ones still sign.
-- include: client, table, endpoint, notice
-- KEYS: the client's base
-- Arguments, in q:
--   sealed: the new secret
--   along_ms: how long the former one still signs
--   name: distinguishes secrets that end in the same millisecond
--   max_along: how many previous ones may still sign
--   only_ask: true: changes nothing
-- Answer: {1, until when the former one still signs} ({1} if there was none), or {0, ms until a rotation is possible}
-- Repeat: the new secret is also listed as a previous one, which no receiver notices

local S = base .. 'signing-secrets'
local old = redis.call('HGET', S, 'current')
local signing, first = 0, nil
for _, name in ipairs(redis.call('HKEYS', S)) do
  local till = tonumber(string.match(name, '^previous:(%d+)'))
  if till and till <= now and not q.only_ask then
    redis.call('HDEL', S, name)
  elseif till and till > now then
    signing = signing + 1
    first = math.min(first or till, till)
  end
end
if old and signing >= q.max_along then return {0, first - now} end
if q.only_ask then return {1} end
redis.call('HSET', S, 'current', q.sealed)
owe_secret_notice('the signing secret was rotated')
if not old then return {1} end
local till = now + q.along_ms
redis.call('HSET', S, string.format('previous:%d:%s', till, q.name), old)
return {1, till}
