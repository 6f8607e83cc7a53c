-- Makes a waiting notification due now.
-- include: client, notification
-- KEYS: the client's base
-- Arguments: id
-- Answer: 'due', 'ended', or 'unknown' if there is no record
-- Repeat: safe: it is due again

local id = ARGV[2]
local asset = redis.call('HGET', record(id), 'asset')
if not asset then return 'unknown' end
local f = flight_of(asset)
local w = not f and waiting_of(asset) or nil
if owed_id(asset, f, w) ~= id then return 'ended' end
if w then make_due(asset, w, math.min(now, w.since)) end
return 'due'
