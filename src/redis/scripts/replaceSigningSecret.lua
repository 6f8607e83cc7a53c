-- Stores another signing secret and ends every earlier one now.
-- include: client
-- KEYS: the client's base
-- Arguments: sealed
-- Answer: 1
-- Repeat: safe: the same secret is stored again

local sealed = ARGV[2]
local S = base .. 'signing-secrets'
for _, name in ipairs(redis.call('HKEYS', S)) do
  if string.find(name, '^previous:') then redis.call('HDEL', S, name) end
end
redis.call('HSET', S, 'current', sealed)
return 1
