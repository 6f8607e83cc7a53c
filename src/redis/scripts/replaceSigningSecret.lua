-- Stores another signing secret and ends every earlier one now.
-- include: client
-- KEYS: the client's base
-- Arguments: sealed
-- Answer: 1
-- Repeat: safe: the same secret is stored again

local sealed = ARGV[2]
redis.call('DEL', base .. 'signing-secrets')
redis.call('HSET', base .. 'signing-secrets', 'current', sealed)
return 1
