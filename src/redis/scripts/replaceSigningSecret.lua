-- Stores another signing secret and ends every earlier one now.
-- include: client, endpoint, notice
-- KEYS: the client's base
-- Arguments: sealed
-- Answer: 1
-- Repeat: safe: the same secret is stored again

local sealed = ARGV[2]
local S = base .. 'signing-secrets'
-- Request headers are in the same hash and stay.
for _, name in ipairs(redis.call('HKEYS', S)) do
  if string.find(name, '^previous:') then redis.call('HDEL', S, name) end
end
redis.call('HSET', S, 'current', sealed)
owe_secret_notice('the signing secret was rotated, earlier ones have ended')
return 1
