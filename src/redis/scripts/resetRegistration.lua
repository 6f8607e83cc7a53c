-- Removes a client's URL; owed assets stay owed.
-- include: client, endpoint
-- KEYS: the client's base
-- Arguments: none
-- Answer: {the URL, how many assets are owed}, or nil if there was none
-- Repeat: safe: a second call finds none

local R = base .. 'registration'
local url, from = redis.call('HGET', R, 'url'), seen()
if not url then return false end
redis.call('DEL', R)
new_generation()
note_change(from, 'reset', 'operator')
return {url, redis.call('HLEN', base .. 'owed') + redis.call('HLEN', base .. 'flight')}
