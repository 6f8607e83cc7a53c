-- The known segments of an asset: its claim number (4 bytes), the id of its last claim (16), how often it was forgotten (2), its newest
-- update (8: `add_update`), and the fingerprints (6 each) of its first 256 segments. A set beside them, `known:<bucket>:<field>`, holds those of further
-- ones. A claim reads from it only its own segments, so its cost does not depend on their number.
-- Beyond 100,000 segments of one asset, random others of the set are removed: a forgotten segment is notified
-- once more, and no new one is missed.

local FINGERPRINT, NO_UPDATE = const.fingerprint_bytes, '\0\0\0\0\0\0\0\0'
local PACKED_BYTES = 1536
local BESIDE_AT_MOST = 99744
local function read_known(bucket, slot)
  local packed = redis.call('HGET', base .. 'known:' .. bucket, slot)
  if not packed then return 0, '', '', 0, NO_UPDATE end
  local claim, id, forgets, update = struct.unpack('>I4c16I2c8', packed)
  return claim, id, string.sub(packed, const.known_header_bytes + 1), forgets, update
end
-- Returns the notification id for 16 bytes, as src/ids.ts writes it; nil if they are all zero.
local BASE64URL = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
local function id_text(bytes)
  if bytes == '' or bytes == string.rep('\0', 16) then return nil end
  local out = {}
  for i = 1, 16, 3 do
    local a, b, c = string.byte(bytes, i, i + 2)
    local n = a * 65536 + (b or 0) * 256 + (c or 0)
    for _, unit in ipairs({262144, 4096, 64, 1}) do
      local at = math.floor(n / unit) % 64 + 1
      out[#out + 1] = string.sub(BASE64URL, at, at)
    end
  end
  return 'msg_' .. string.sub(table.concat(out), 1, 22)
end
-- Returns the 16 bytes of the id that an event has once its asset was forgotten so many times: receivers do nothing for an id that they
-- have had.
local function id_after(forgets, id_bytes)
  local hex = string.sub(redis.sha1hex(id_bytes .. forgets), 1, 32)
  return (string.gsub(hex, '..', function(byte) return string.char(tonumber(byte, 16)) end))
end
local function beside_of(bucket, slot) return base .. 'known:' .. bucket .. ':' .. slot end
local function fingerprints_of(packed)
  local list = {}
  for i = 1, #packed, FINGERPRINT do list[#list + 1] = string.sub(packed, i, i + FINGERPRINT - 1) end
  return list
end
local function write_beside(bucket, slot, packed)
  local key, list = beside_of(bucket, slot), fingerprints_of(packed)
  local over = redis.call('SCARD', key) + #list - BESIDE_AT_MOST
  if over > 0 then redis.call('SPOP', key, over) end
  for i = 1, #list, 1000 do redis.call('SADD', key, unpack(list, i, math.min(i + 999, #list))) end
  -- As a write of the first segments: where SEGMENT_RETENTION_DAYS was switched off, neither part ends before the other.
  redis.call('PERSIST', key)
  -- A deletion finds the set through this entry.
  local names = base .. 'known-beside'
  if redis.call('SADD', names, bucket .. ':' .. slot) == 0 then return end
  -- Each new entry checks two at random, so that at most about half of them are of sets that have expired.
  for _, name in ipairs(redis.call('SRANDMEMBER', names, 2)) do
    if redis.call('EXISTS', base .. 'known:' .. name) == 0 then redis.call('SREM', names, name) end
  end
end
local function write_known(bucket, slot, claim, id, segments, forgets, update)
  if id == '' then id = string.rep('\0', 16) end
  if #segments > PACKED_BYTES then
    write_beside(bucket, slot, string.sub(segments, PACKED_BYTES + 1))
    segments = string.sub(segments, 1, PACKED_BYTES)
  end
  redis.call('HSET', base .. 'known:' .. bucket, slot, struct.pack('>I4c16I2c8', claim, id, forgets, update) .. segments)
end
-- Begins the time (s) again after which the asset's segments are forgotten; 0: never. It comes after `write_known`, which
-- ends such a time.
local function keep_known(bucket, slot, seconds)
  if seconds == 0 then return end
  redis.call('HEXPIRE', base .. 'known:' .. bucket, seconds, 'FIELDS', 1, slot)
  redis.call('EXPIRE', beside_of(bucket, slot), seconds)
end
local function is_packed(segments, fingerprint)
  local from = 1
  while true do
    local at = string.find(segments, fingerprint, from, true)
    if not at then return false end
    if (at - 1) % FINGERPRINT == 0 then return true end
    from = at + 1
  end
end
-- Returns those of the wanted fingerprints that are not known; segments: the result of `read_known`.
local function missing(bucket, slot, segments, wanted)
  if segments == '' then return wanted end
  local new = {}
  for _, fingerprint in ipairs(fingerprints_of(wanted)) do
    if not is_packed(segments, fingerprint) then new[#new + 1] = fingerprint end
  end
  if #new > 0 and #segments >= PACKED_BYTES then
    local candidates, known = new, redis.call('SMISMEMBER', beside_of(bucket, slot), unpack(new))
    new = {}
    for i, fingerprint in ipairs(candidates) do
      if known[i] == 0 then new[#new + 1] = fingerprint end
    end
  end
  return table.concat(new)
end
