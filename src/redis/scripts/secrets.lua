-- Changes a client's sealed secrets: signing secrets, and the values of its request headers.

local function secrets_key() return base .. 'signing-secrets' end
local function remove_secrets(pattern)
  for _, name in ipairs(redis.call('HKEYS', secrets_key())) do
    if string.find(name, pattern) then redis.call('HDEL', secrets_key(), name) end
  end
end
-- Makes another version of the secrets, which processes remember.
local function note_secrets() redis.call('HSET', E, 'secrets_at', table.concat(redis.call('TIME'), '.')) end
-- Stores a signing secret, if the client has none.
local function add_secret(sealed)
  if redis.call('HSETNX', secrets_key(), 'current', sealed) == 1 then note_secrets() end
end
-- Stores a client's first signing secret.
-- Arguments: sealed
-- Answer: the stored secret
entry('createSigningSecret', function(_, ARGV)
  add_secret(ARGV[2])
  return redis.call('HGET', secrets_key(), 'current')
end)
-- Stores another signing secret; the former one still signs for a while. Refused while the most previous ones still sign.
-- Arguments: sealed (the new secret), along_ms (how long the former one still signs; '0': it and every earlier one end), name
--   (distinguishes secrets that end in the same millisecond), max_along (how many previous ones may still sign)
-- Answer: {1, until when the former one still signs} ({1} if it does not), or {0, ms until a rotation is possible}
-- Repeat: the new secret is also listed as a previous one, which no receiver notices
entry('rotateSigningSecret', function(_, ARGV)
  local S, ends_now = secrets_key(), ARGV[3] == '0'
  if ends_now then remove_secrets('^previous:') end
  local old = redis.call('HGET', S, 'current')
  local signing, first = 0, nil
  for _, name in ipairs(redis.call('HKEYS', S)) do
    local till = tonumber(string.match(name, '^previous:(%d+)'))
    if till and till <= now then
      if is_sure() then redis.call('HDEL', S, name) end
    elseif till and till > now then
      signing = signing + 1
      first = math.min(first or till, till)
    end
  end
  if old and signing >= tonumber(ARGV[5]) then return {0, first - now} end
  redis.call('HSET', S, 'current', ARGV[2])
  note_secrets()
  local reason = 'the signing secret was rotated' .. (ends_now and ', earlier ones have ended' or '')
  owe_notice('secret_notice', 'secret.rotated', reason, failed_so_far(now))
  if not old or ends_now then return {1} end
  local till = now + tonumber(ARGV[3])
  redis.call('HSET', S, string.format('previous:%d:%s', till, ARGV[4]), old)
  return {1, till}
end)
-- Decides which request headers go to a client's URL when it changes (redis/records/secrets.ts). Those of the former URL are left
-- behind, instead of those left behind before; those that were left behind with the new URL are back; and a caller who may set headers
-- has those that wait for a URL sent to the one that it chooses.
-- Returns the names of those left behind, and of those that are back.
local function turn_headers(former, url, may_set)
  local S, moves, left, back = secrets_key(), {}, {}, {}
  if former == url then return left, back end
  local flat, there = redis.call('HGETALL', S), url and 'left:' .. redis.sha1hex(url) .. ':'
  local function move(prefix, into, names)
    for i = 1, #flat, 2 do
      if string.sub(flat[i], 1, #prefix) == prefix then
        local name = string.sub(flat[i], #prefix + 1)
        moves[#moves + 1] = {flat[i], into .. name, flat[i + 1]}
        names[#names + 1] = name
      end
    end
  end
  if former then move('header:', 'left:' .. redis.sha1hex(former) .. ':', left) end
  if there then move(there, 'header:', back) end
  if url and may_set then move('waiting:', 'header:', {}) end
  if #moves == 0 then return left, back end
  for _, one in ipairs(moves) do redis.call('HDEL', S, one[1]) end
  if #left > 0 then remove_secrets('^left:') end
  for _, one in ipairs(moves) do redis.call('HSET', S, one[2], one[3]) end
  note_secrets()
  return left, back
end
-- Replaces a client's request headers, also those left behind: they are for its URL, or wait for the next one that a caller with the right
-- to set them registers.
-- Arguments: name and sealed value of each in turn
entry('setRequestHeaders', function(_, ARGV)
  local to = redis.call('HEXISTS', base .. 'registration', 'url') == 1 and 'header:' or 'waiting:'
  for _, prefix in ipairs({'header:', 'waiting:', 'left:'}) do remove_secrets('^' .. prefix) end
  for i = 2, #ARGV, 2 do redis.call('HSET', secrets_key(), to .. ARGV[i], ARGV[i + 1]) end
  note_secrets()
end)
-- Replaces a sealed value by the same one, sealed with another key.
-- Arguments: name, before, after
-- Answer: 1, or 0 if it has changed meanwhile
entry('reencrypt', function(_, ARGV)
  if redis.call('HGET', secrets_key(), ARGV[2]) ~= ARGV[3] then return 0 end
  redis.call('HSET', secrets_key(), ARGV[2], ARGV[4])
  note_secrets()
  return 1
end)
