-- Marks a registration as answered, unless another call took it over.
-- include: client
-- KEYS: the client's base
-- Arguments: nonce
-- Answer: 1
-- Repeat: safe: it stays answered

local nonce = ARGV[2]
local R = base .. 'registration'
if redis.call('HGET', R, 'nonce') == nonce then
  redis.call('HSET', R, 'answered', '1')
  redis.call('HDEL', R, 'pending_since')
end
return 1
