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
-- Replaces a client's request headers.
-- Arguments: name and sealed value of each in turn
entry('setRequestHeaders', function(_, ARGV)
  remove_secrets('^header:')
  if #ARGV > 1 then redis.call('HSET', secrets_key(), unpack(ARGV, 2)) end
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
