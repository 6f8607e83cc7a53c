-- Forgets some of the segments that a run was the first to bring.
-- include: client, known
-- KEYS: the client's base
-- Arguments: run, count (of events), keep (s, as in claim.lua)
-- Answer: {segments forgotten, 1 if there are more}
-- Repeat: safe: each is forgotten once

local run, count, keep = ARGV[2], ARGV[3], ARGV[4]
local function forget(bucket, slot, gone)
  local claimed, last, segments = read_known(bucket, slot)
  if segments == '' then return 0 end
  local is_gone, rest, forgotten = {}, {}, 0
  for _, one in ipairs(gone) do is_gone[one] = true end
  for _, one in ipairs(fingerprints_of(segments)) do
    if is_gone[one] then forgotten = forgotten + 1 else rest[#rest + 1] = one end
  end
  -- A claim reads the set beside only if the first 256 are all there.
  local beside = beside_of(bucket, slot)
  if redis.call('EXISTS', beside) == 1 then
    forgotten = forgotten + redis.call('SREM', beside, unpack(gone))
    for _, one in ipairs(redis.call('SPOP', beside, PACKED_BYTES / 6 - #rest)) do rest[#rest + 1] = one end
  end
  write_known(bucket, slot, claimed, last, table.concat(rest))
  keep_known(bucket, slot, tonumber(keep))
  return forgotten
end

local forgotten, key = 0, base .. 'run-known:' .. run
for _, entry in ipairs(redis.call('LRANGE', key, 0, count - 1)) do
  local colon = string.find(entry, ':', 1, true)
  local slot, gone = string.sub(entry, colon + 1, colon + 8), string.sub(entry, colon + 9)
  forgotten = forgotten + forget(string.sub(entry, 1, colon - 1), slot, fingerprints_of(gone))
end
redis.call('LTRIM', key, count, -1)
if forgotten > 0 then redis.call('HINCRBY', base .. 'run:' .. run, 'forgotten', forgotten) end
return {forgotten, redis.call('EXISTS', key)}
