-- Cancels a waiting notification, for an operator.
-- include: client, notification
-- KEYS: the client's base
-- Arguments: id
-- Answer: 1, or 0 if it does not wait (any more)
-- Repeat: safe: a second call finds that it does not wait

local id = ARGV[2]
local asset = redis.call('HGET', record(id), 'asset')
if not asset then return 0 end
local f = flight_of(asset)
local w = not f and waiting_of(asset) or nil
if owed_id(asset, f, w) ~= id then return 0 end
if f then
  f.newer = NOTHING
  write_flight(asset, f)
else stop_waiting(asset, w) end
finish(id, 'cancelled')
return 1
