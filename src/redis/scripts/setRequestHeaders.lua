-- Stores a client's request headers and removes all earlier ones.
-- include: client, table
-- KEYS: the client's base
-- Arguments, in q:
--   headers: fields of the client's secrets and sealed values, in turn
-- Answer: 1
-- Repeat: safe: the same ones are stored again

local S = base .. 'signing-secrets'
for _, name in ipairs(redis.call('HKEYS', S)) do
  if string.find(name, '^header:') then redis.call('HDEL', S, name) end
end
if #q.headers > 0 then redis.call('HSET', S, unpack(q.headers)) end
return 1
