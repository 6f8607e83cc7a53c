-- Makes a failed notification owed again, unless its asset has a newer one.
-- include: client, table, notification
-- KEYS: the client's base
-- Arguments, in q:
--   id: of the notification
--   dry_run: true: changes nothing
--   bucket: of its asset
-- Bytes: its asset's field in the bucket (8), its id (16)
-- Answer: 1 if it is owed again (or would be), else 0
-- Repeat: safe: it is no longer failed

local slot, id_bytes = bytes(8), bytes(16)
local r = redis.call('HMGET', record(q.id), 'state', 'asset', 'priority')
if r[1] ~= 'failed' then return 0 end
local asset = r[2]
local f = flight_of(asset)
if owed_id(asset, f, not f and waiting_of(asset) or nil) then return 0 end
local packed = redis.call('HGET', base .. 'known:' .. q.bucket, slot)
if packed and string.sub(packed, 5, 20) ~= id_bytes then return 0 end
if q.dry_run then return 1 end
owe(asset, q.id, r[3] == 'backfill' and 'B' or 'L')
write_waiting()
reopen(q.id)
return 1
