-- Cancels some of the notifications that a deleted client, or one of notices, is still owed. An attempt under way settles nothing any more.
-- include: client, notification
-- KEYS: the client's base
-- Arguments: count
-- Answer: {how many were cancelled, 1 if there are more}
-- Repeat: safe: each is cancelled once

local count = ARGV[2]
local cancelled = 0
local function cancel(id)
  finish(id, 'cancelled', nil, 'client_deleted')
  cancelled = cancelled + 1
end
for _, asset in ipairs(redis.call('HKEYS', base .. 'flight')) do
  local f = flight_of(asset)
  local id = owed_id(asset, f)
  if id then cancel(id) end
  f.newer = NOTHING
  if f.lease > now then write_flight(asset, f) else redis.call('HDEL', base .. 'flight', asset) end
end
local owed, assets = redis.call('HRANDFIELD', base .. 'owed', count, 'WITHVALUES'), {}
for i = 1, #owed, 2 do
  assets[#assets + 1] = owed[i]
  cancel(owed[i + 1])
end
if #assets > 0 then
  redis.call('HDEL', base .. 'owed', unpack(assets))
  for _, key in ipairs({'owed-since', 'due:live', 'due:backfill'}) do redis.call('ZREM', base .. key, unpack(assets)) end
end
if redis.call('EXISTS', base .. 'owed') == 1 then return {cancelled, 1} end
redis.call('UNLINK', base .. 'owed-since', base .. 'due:live', base .. 'due:backfill', base .. 'resends')
return {cancelled, 0}
