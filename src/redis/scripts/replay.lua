-- Makes assets owed by their newest notifications, unless they are owed or were delivered after a time.
-- include: client, table, notification, known
-- KEYS: the client's base
-- Arguments, in q:
--   latest: that time, ms
--   dry_run: true: changes nothing
--   assets: of each its id, the id of a notification that was delivered, its bucket
-- Bytes: of each asset its field in the bucket (8)
-- Answer: how many are owed again (or would be)
-- Repeat: safe: owed assets are left as they are

is_empty.flight = redis.call('HLEN', base .. 'flight') == 0
is_empty.waiting = redis.call('HLEN', base .. 'owed') == 0
local chosen = {}
for _, a in ipairs(q.assets) do
  local asset, id, bucket = unpack(a)
  local slot = bytes(8)
  local f = flight_of(asset)
  if not owed_id(asset, f, not f and waiting_of(asset) or nil) then
    local _, last = read_known(bucket, slot)
    local newest = id_text(last)
    if newest and redis.call('EXISTS', record(newest)) == 1 then id = newest end
    local r = redis.call('HMGET', record(id), 'state', 'ended_at')
    local is_told = r[1] == 'delivered' and tonumber(r[2]) > q.latest
    if r[1] and not is_told then chosen[#chosen + 1] = {asset, id} end
  end
end
if q.dry_run then return #chosen end
for _, c in ipairs(chosen) do owe(c[1], c[2], 'B') end
write_waiting()
for _, c in ipairs(chosen) do
  reopen(c[2])
  redis.call('HSET', record(c[2]), 'priority', 'backfill')
end
return #chosen
