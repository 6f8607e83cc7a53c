/**
 * Lua for every script that writes a notification's record or what is owed.
 *
 * The record `{T}:notification:<id>`: asset, event, accepted_at, state, priority (absent: live); by (superseded by, not
 * needed because of), reason, ended_at; attempts (JSON, one line each), failures, clock_since (the client's clock at the
 * first failed attempt), redeliver_failures. Each is written when there is something to say: most that is owed has but
 * the first four.
 */
export const notificationLua = `
local KEEP_SECONDS = 1209600
local function record(id) return base .. 'notification:' .. id end
-- Ends a record, in one write with what else is to be written of it: fields, a list of names and values.
local function close(id, fields, state, by, reason)
  for name, value in pairs({state = state, ended_at = now, by = by, reason = reason}) do
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  redis.call('HSET', record(id), unpack(fields))
  redis.call('EXPIRE', record(id), KEEP_SECONDS)
end
local function finish(id, state, by, reason)
  if redis.call('EXISTS', record(id)) == 1 then close(id, {}, state, by, reason) end
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
-- When what \`owe\` has written is due, until \`write_due\` or a take writes it: asset -> {lane, ms}.
local put_off = {}
local function lane_of(asset)
  if put_off[asset] then return put_off[asset][1] end
  if redis.call('ZSCORE', base .. 'due:backfill', asset) then return 'due:backfill' end
  return 'due:live'
end
local function lease_end(asset)
  local until_at = tonumber(redis.call('ZSCORE', base .. 'in-flight', asset) or '0')
  if until_at > now then return math.ceil(until_at) end
  return nil
end
local function no_longer_owed(asset)
  redis.call('HDEL', base .. 'owed', asset)
  redis.call('ZREM', base .. 'owed-since', asset)
  if redis.call('ZREM', base .. 'due:live', asset) == 0 then redis.call('ZREM', base .. 'due:backfill', asset) end
  if redis.call('EXISTS', base .. 'owed') == 0 then redis.call('HDEL', base .. 'endpoint', 'catch_up_until') end
end
-- Writes an asset as owed by this notification; what it replaces ends as superseded in the same moment. In which lane it
-- is due, and when, is put off: where it is taken in the same script, the end of its lease is all that is written.
local function owe(asset, id, priority)
  local leased, before, since = lease_end(asset), redis.call('HGET', base .. 'owed', asset), false
  if before then
    if before ~= id then finish(before, 'superseded', id) end
    since = redis.call('ZSCORE', base .. 'owed-since', asset)
    if lane_of(asset) == 'due:live' then priority = 'live'
    elseif priority == 'live' then redis.call('ZREM', base .. 'due:backfill', asset) end
  end
  redis.call('HSET', base .. 'owed', asset, id)
  if not since then redis.call('ZADD', base .. 'owed-since', now, asset) end
  put_off[asset] = {'due:' .. priority, leased or tonumber(since or now)}
  return priority
end
local function write_due()
  for asset, due in pairs(put_off) do redis.call('ZADD', base .. due[1], due[2], asset) end
  put_off = {}
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
