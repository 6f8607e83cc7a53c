-- Claims events: decides once for each whether it makes a notification, and by which notification its asset is owed.

-- The known segments of an asset: its claim number (4 bytes), the id of its last claim (16), and the
-- fingerprints (6 each) of its first 256 segments. A set beside them, `known:<bucket>:<field>`, holds those of further
-- ones. A claim reads from it only its own segments, so its cost does not depend on their number.
-- Beyond 100,000 segments of one asset, random others of the set are removed: a forgotten segment is notified
-- once more, and no new one is missed.

local HEADER = 20
local PACKED_BYTES = 1536
local BESIDE_AT_MOST = 99744
local function read_known(bucket, slot)
  local packed = redis.call('HGET', base .. 'known:' .. bucket, slot)
  if not packed then return 0, '', '' end
  return struct.unpack('>I4', packed), string.sub(packed, 5, HEADER), string.sub(packed, HEADER + 1)
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
local function beside_of(bucket, slot) return base .. 'known:' .. bucket .. ':' .. slot end
local function fingerprints_of(packed)
  local list = {}
  for i = 1, #packed, 6 do list[#list + 1] = string.sub(packed, i, i + 5) end
  return list
end
local function write_beside(bucket, slot, packed)
  local key, list = beside_of(bucket, slot), fingerprints_of(packed)
  local over = redis.call('SCARD', key) + #list - BESIDE_AT_MOST
  if over > 0 then redis.call('SPOP', key, over) end
  for i = 1, #list, 1000 do redis.call('SADD', key, unpack(list, i, math.min(i + 999, #list))) end
  -- A deletion finds the set through this entry.
  local names = base .. 'known-beside'
  if redis.call('SADD', names, bucket .. ':' .. slot) == 0 then return end
  -- Each new entry checks two at random, so that at most about half of them are of sets that have expired.
  for _, name in ipairs(redis.call('SRANDMEMBER', names, 2)) do
    if redis.call('EXISTS', base .. 'known:' .. name) == 0 then redis.call('SREM', names, name) end
  end
end
local function write_known(bucket, slot, claim, id, segments)
  if id == '' then id = string.rep('\0', 16) end
  if #segments > PACKED_BYTES then
    write_beside(bucket, slot, string.sub(segments, PACKED_BYTES + 1))
    segments = string.sub(segments, 1, PACKED_BYTES)
  end
  redis.call('HSET', base .. 'known:' .. bucket, slot, struct.pack('>I4', claim) .. id .. segments)
end
-- Begins the time (s) again after which the asset's segments are forgotten; 0: never. It comes after `write_known`, which
-- ends such a time.
local function keep_known(bucket, slot, seconds)
  if seconds == 0 then return end
  redis.call('HEXPIRE', base .. 'known:' .. bucket, seconds, 'FIELDS', 1, slot)
  redis.call('EXPIRE', beside_of(bucket, slot), seconds)
end
-- Keeps the last decision about an asset that made no notification for 14 days.
local function decide(asset, event, reason)
  redis.call('SET', base .. 'decision:' .. asset,
    cjson.encode({event_id = event, at = now, decision = reason}), 'EX', 1209600)
end
local function is_packed(segments, fingerprint)
  local from = 1
  while true do
    local at = string.find(segments, fingerprint, from, true)
    if not at then return false end
    if (at - 1) % 6 == 0 then return true end
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

local function stopped()
  local h = health()
  return h.is_paused and 'paused' or h.state == 'suspended' and 'suspended' or nil
end
-- Adds an update to the feed (src/redis/notifications/updates.ts), which keeps the newest 100,000 and one more.
local has_updates
at_begin(function() has_updates = false end)
local function add_update(id, asset)
  redis.call('XADD', base .. 'updates', 'MAXLEN', '~', '100001', '*', 'id', id, 'asset', asset)
  has_updates = true
end
-- Wakes the callers who wait for updates, once: each that waits again notes that again. A server that refuses PUBLISH fails no claim.
local function tell_updates()
  if not has_updates or health().updates_awaited_until <= now then return end
  redis.call('HDEL', E, 'updates_awaited_until')
  redis.pcall('PUBLISH', base .. 'updates', '')
end
-- Notes that a caller waits for the client's next update.
-- Arguments: the position after which the caller reads, for how long (ms) the caller waits
-- Answer: 1 if there are updates after it (nothing is noted), else 0
entry('awaitUpdates', function(_, ARGV)
  local last = redis.call('XREVRANGE', base .. 'updates', '+', '-', 'COUNT', 1)[1]
  if (last and last[1] or '0-0') ~= ARGV[2] then return 1 end
  local till = math.max(health().updates_awaited_until, now + tonumber(ARGV[3]))
  if limits().is_known then redis.call('HSET', E, 'updates_awaited_until', till) end
  return 0
end, {'allow-oom'})
-- True if the events of this call are of one lane, and each of another asset, which is not in flight. Then the order in which they
-- arrive is the order in which they are taken.
local are_apart
local function read_are_apart(ARGV)
  local assets, seen = {}, {}
  for i = 9, #ARGV, 14 do
    local asset = ARGV[i + 4]
    if ARGV[i + 6] ~= ARGV[15] or seen[asset] then return false end
    assets[#assets + 1], seen[asset] = asset, true
  end
  if in_flight() == 0 then return true end
  for _, packed in ipairs(redis.call('HMGET', base .. 'flight', unpack(assets))) do
    if packed then return false end
  end
  return true
end
local function write_claim(e, claimed, segments, new)
  local lane, supersedes = e.lane, false
  local quiet_ms = limits().quiet_ms
  if quiet_ms > 0 or not are_apart or not take_arriving(e.asset, e.id, lane, e.trace, e.body) then
    lane, supersedes = owe(e.asset, e.id, lane, quiet_ms)
  else replace_failed(e.asset, e.id) end
  write_known(e.bucket, e.slot, claimed, e.id_bytes, segments .. new)
  local fields = {'asset', e.asset, 'event', e.event, 'accepted_at', e.accepted_at}
  if lane == 'B' then add(fields, 'priority', 'backfill') end
  if e.group ~= '' then add(fields, 'group', e.group) end
  if e.trace then add(fields, 'trace', e.trace) end
  if e.body then add(fields, 'body', e.body) end
  if redis.call('HSET', record(e.id), unpack(fields)) < #fields / 2 then
    -- An event of before its asset was forgotten.
    redis.call('DEL', record(e.id))
    redis.call('HSET', record(e.id), unpack(fields))
  end
  list(e.id, e.accepted_at)
  add_update(e.id, e.asset)
  return {kind = 'claimed', claim = claimed, again = false, supersedes = supersedes, stopped = stopped()}
end
local function claimed_before(claimed, state)
  if state == 'waiting' then
    return {kind = 'claimed', claim = claimed, again = true, supersedes = false, stopped = stopped()}
  end
  return {kind = 'ended', state = state, stopped = stopped()}
end
local function claim_again(e, claimed, last, segments, new)
  local state = state_of(e.id)
  if state or last == e.id_bytes then return claimed_before(claimed, state) end
  local function end_unclaimed(as, by, reason)
    close(e.id, {'asset', e.asset, 'event', e.event, 'accepted_at', e.accepted_at}, as, by, reason)
  end
  if limits().is_deleted then
    -- The deletion cancels owed notifications; an unclaimed event ends here.
    end_unclaimed('cancelled', nil, 'client_deleted')
    return {kind = 'ended', state = 'cancelled'}
  end
  if new ~= '' or claimed <= e.looked_up then return write_claim(e, claimed + 1, segments, new) end
  end_unclaimed('not_needed', id_text(last))
  list(e.id, e.accepted_at)
  decide(e.asset, e.event, 'not_needed')
  return {kind = 'not_needed'}
end
-- Returns whether a newer notice of the asset was claimed: the caller stalled between reading this one and claiming it.
local function is_outdated(e, last)
  local newest = id_text(last)
  local accepted_at = newest and redis.call('HGET', record(newest), 'accepted_at')
  return accepted_at and tonumber(accepted_at) > tonumber(e.accepted_at)
end
local function claim_event(e, keep_seconds)
  local claimed, last, segments = read_known(e.bucket, e.slot)
  local new = missing(e.bucket, e.slot, segments, e.fingerprints)
  if e.looked_up >= 0 then return claim_again(e, claimed, last, segments, new) end
  if not limits().is_known then return {kind = 'unknown_client'} end
  if last == e.id_bytes and not e.is_silent then return claimed_before(claimed, state_of(e.id)) end
  if e.body and is_outdated(e, last) then return {kind = 'ended', state = 'superseded'} end
  if not e.is_silent and limits().url and new ~= '' then
    -- The event arrives again, after some of its segments were forgotten: at random, or after their time, if an operator had
    -- it sent again, which keeps its record for longer.
    local before = (#segments >= PACKED_BYTES or keep_seconds > 0) and state_of(e.id)
    local forgotten = before and redis.call('GET', base .. 'forgotten:' .. e.asset)
    local ended_at = forgotten and redis.call('HGET', record(e.id), 'ended_at')
    if before and not (ended_at and tonumber(ended_at) <= tonumber(forgotten)) then return {kind = 'ended', state = before, stopped = stopped()} end
    return write_claim(e, claimed + 1, segments, new)
  end
  local reason = e.is_silent and 'silent' or not limits().url and 'not_registered' or 'no_new_segments'
  if new ~= '' then write_known(e.bucket, e.slot, claimed, last, segments .. new) end
  -- A client without a URL may ask for updates.
  if new ~= '' and not e.is_silent then add_update(e.id, e.asset) end
  decide(e.asset, e.event, reason)
  return {kind = 'none', reason = reason}
end

-- Claims events of one client, and takes the oldest due for the places that are free (rule 1 of docs/architecture.md).
-- Arguments: lease, bound, drain rate, nonce, how many to take at most, known version of the secrets, after how long (s) an asset's segments are forgotten (0:
--   never); then of each event: bucket, its asset's field in it (8 bytes), id, the same as 16 bytes, asset, event id, lane, accepted
--   at (ms), '1' if it is silent, group ('': its own workflow), looked-up claim number (-1: not claimed before), fingerprints (6 bytes
--   each), trace, body ('': none)
-- Answer: JSON of `Claims` of src/redis/owed/claim.ts
-- Repeat: safe: an event recognises that it claimed its asset last; `turn` finds what was taken, by the nonce
entry('claim', function(_, ARGV)
  read_bounds(ARGV)
  local keep_seconds, answers = tonumber(ARGV[8]), {}
  are_apart = read_are_apart(ARGV)
  for i = 9, #ARGV, 14 do
    local e = {
      bucket = ARGV[i], slot = ARGV[i + 1], id = ARGV[i + 2], id_bytes = ARGV[i + 3], asset = ARGV[i + 4],
      event = ARGV[i + 5], lane = ARGV[i + 6], accepted_at = ARGV[i + 7], is_silent = ARGV[i + 8] == '1',
      group = ARGV[i + 9], looked_up = tonumber(ARGV[i + 10]), fingerprints = ARGV[i + 11],
      trace = ARGV[i + 12] ~= '' and ARGV[i + 12], body = ARGV[i + 13] ~= '' and ARGV[i + 13],
    }
    answers[#answers + 1] = claim_event(e, keep_seconds)
    keep_known(e.bucket, e.slot, keep_seconds)
  end
  tell_updates()
  take()
  trim_list()
  return answer_taken({claims = answers})
end)
-- Notes the group of a notification whose former group began without it.
-- Arguments: id, group
entry('noteGroup', function(_, ARGV)
  if redis.call('EXISTS', record(ARGV[2])) == 1 then redis.call('HSET', record(ARGV[2]), 'group', ARGV[3]) end
  return 1
end)
