-- Reads the record of each notification and the owed state of its asset, at the same moment.
-- include: client, table, notification, known
-- KEYS: the client's base
-- Arguments, in q:
--   asked: lists of id, asset, bucket; asset and bucket are '' if the asset is unknown
-- Bytes: of each asked with a bucket its asset's field in it (8), its id (16)
-- Answer: {now, {asset, state, accepted at, listed, owed, owed since, due, claim number, whether it is the last claim} of
--   each}; '' and 0 if there is none
-- Repeat: safe: it changes nothing

local found = {now}
for _, asked in ipairs(q.asked) do
  local id, asset, bucket = unpack(asked)
  local r = redis.call('HMGET', record(id), 'state', 'asset', 'accepted_at')
  if asset == '' then asset = r[2] or '' end
  local claim, is_last = 0, false
  if bucket ~= '' then
    local last
    claim, last = read_known(bucket, bytes(8))
    is_last = last == bytes(16)
  end
  local f = flight_of(asset)
  local w = not f and waiting_of(asset) or nil
  local owed = owed_id(asset, f, w) == id
  found[#found + 1] = {
    asset, r[2] and (r[1] or 'waiting') or '', r[3] or '',
    redis.call('ZSCORE', base .. 'notifications', id) and 1 or 0,
    owed and 1 or 0,
    owed and (f and f.since or redis.call('ZSCORE', base .. 'owed-since', asset)) or '',
    owed and (f and string.format('%d', f.lease) or redis.call('ZSCORE', base .. LANES[w.lane], asset)) or '',
    claim, is_last and 1 or 0,
  }
end
return found
