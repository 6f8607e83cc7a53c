/**
 * Lua for every script that writes a notification's record or what is owed.
 *
 * The record `{T}:notification:<id>`: asset, event, accepted_at, state, priority, claim, clock_since, failures,
 * by (superseded by, not needed because of), reason, ended_at, attempts (JSON, one line each).
 */
export const notificationLua = `
local KEEP_SECONDS = 1209600
local function record(id) return base .. 'notification:' .. id end
local function finish(id, state, by, reason)
  local key = record(id)
  if redis.call('EXISTS', key) == 0 then return end
  redis.call('HSET', key, 'state', state, 'ended_at', now)
  if by then redis.call('HSET', key, 'by', by) end
  if reason then redis.call('HSET', key, 'reason', reason) end
  redis.call('EXPIRE', key, KEEP_SECONDS)
end
-- Lists a notification; beyond 10,000 the oldest go, with their records unless they are still owed.
local function list(id, accepted_at)
  local log = base .. 'notifications'
  redis.call('ZADD', log, accepted_at, id)
  if redis.call('ZCARD', log) > 10000 then
    local out = redis.call('ZPOPMIN', log)
    if redis.call('HGET', record(out[1]), 'state') ~= 'waiting' then redis.call('DEL', record(out[1])) end
  end
end
local function lane_of(asset)
  if redis.call('ZSCORE', base .. 'due:backfill', asset) then return 'due:backfill' end
  return 'due:live'
end
local function lease_end(asset)
  local token = redis.call('HGET', base .. 'leases', asset)
  local until_at = token and redis.call('ZSCORE', base .. 'in-flight', token)
  if until_at and tonumber(until_at) > now then return tonumber(until_at) end
  return nil
end
local function no_longer_owed(asset)
  redis.call('HDEL', base .. 'owed', asset)
  redis.call('ZREM', base .. 'owed-since', asset)
  if redis.call('ZREM', base .. 'due:live', asset) == 0 then redis.call('ZREM', base .. 'due:backfill', asset) end
  -- A living lease keeps a newer notification of the asset from being sent beside the POST under way.
  if not lease_end(asset) then redis.call('HDEL', base .. 'leases', asset) end
  if redis.call('EXISTS', base .. 'owed') == 0 then redis.call('HDEL', base .. 'endpoint', 'catch_up_until') end
end
-- Writes an asset as owed by this notification; what it replaces ends as superseded in the same moment.
local function owe(asset, id, priority)
  local before = redis.call('HGET', base .. 'owed', asset)
  local since = now
  if before then
    if before ~= id then finish(before, 'superseded', id) end
    since = tonumber(redis.call('ZSCORE', base .. 'owed-since', asset) or now)
    if redis.call('ZSCORE', base .. 'due:live', asset) then priority = 'live' end
  end
  redis.call('HSET', base .. 'owed', asset, id)
  redis.call('ZADD', base .. 'owed-since', since, asset)
  redis.call('ZREM', base .. (priority == 'live' and 'due:backfill' or 'due:live'), asset)
  redis.call('ZADD', base .. 'due:' .. priority, lease_end(asset) or since, asset)
  return priority
end
`;

/** Lua for what is known of an asset: claim number (4 bytes), last claim's id (16), fingerprints (6 each). */
export const knownLua = `
local HEADER = 20
local function read_known(bucket, slot)
  local packed = redis.call('HGET', base .. 'known:' .. bucket, slot)
  if not packed then return 0, '', '' end
  return struct.unpack('>I4', packed), string.sub(packed, 5, HEADER), string.sub(packed, HEADER + 1)
end
-- The notification id behind 16 bytes, as src/ids.ts writes it; nil where they are all zero.
local BASE64URL = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
local function id_text(bytes)
  if bytes == '' or bytes == string.rep('\\0', 16) then return nil end
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
local function write_known(bucket, slot, claim, id, segments)
  if id == '' then id = string.rep('\\0', 16) end
  redis.call('HSET', base .. 'known:' .. bucket, slot, struct.pack('>I4', claim) .. id .. segments)
end
-- Keeps the last decision about an asset that made no notification; 14 days.
local function decide(asset, event, reason)
  redis.call('SET', base .. 'decision:' .. asset,
    cjson.encode({event_id = event, at = now, decision = reason}), 'EX', 1209600)
end
local function missing(segments, wanted)
  local new = ''
  for i = 1, #wanted, 6 do
    local fingerprint = string.sub(wanted, i, i + 5)
    local from, found = 1, false
    while true do
      local at = string.find(segments, fingerprint, from, true)
      if not at then break end
      if (at - 1) % 6 == 0 then found = true break end
      from = at + 1
    end
    if not found then new = new .. fingerprint end
  end
  return new
end
`;
