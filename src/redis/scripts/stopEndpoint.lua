-- Sets or ends a pause or a hold of all deliveries of a client.
-- include: client, endpoint
-- KEYS: the client's base
-- Arguments: name ('paused' or 'held'), wanted ('1' or '0'), why
-- Answer: 1 if that changed anything, else 0
-- Repeat: safe: it changes nothing more

local name, wanted, why = ARGV[2], ARGV[3], ARGV[4]
local before, from = field(name) == '1' and '1' or '0', seen()
if wanted == '1' then redis.call('HSET', E, name, '1')
elseif before == '1' then
  redis.call('HDEL', E, name)
  redis.call('HSET', E, 'recovered_at', now)
end
sync_clock()
note_change(from, why, 'operator')
return before == wanted and 0 or 1
