-- Stores a client's first signing secret.
-- include: client
-- KEYS: the client's base
-- Arguments: sealed
-- Answer: the client's current secret, sealed
-- Repeat: safe: the first one stays

local sealed = ARGV[2]
redis.call('HSETNX', base .. 'signing-secrets', 'current', sealed)
return redis.call('HGET', base .. 'signing-secrets', 'current')
