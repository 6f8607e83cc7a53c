-- Announces claims of clients to the index of owed clients.
-- include: client
-- KEYS: the index of owed clients
-- Arguments: client_tokens (a JSON array)
-- Answer: 1
-- Repeat: safe: the later time counts

local client_tokens = ARGV[2]
for _, client_token in ipairs(cjson.decode(client_tokens)) do redis.call('ZADD', KEYS[1], now, client_token) end
return 1
