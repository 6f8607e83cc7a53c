-- Changes a client's sealed secrets: signing secrets, and the values of its request headers.

local function secrets_key() return base .. 'signing-secrets' end
local function remove_secrets(pattern)
  for _, name in ipairs(redis.call('HKEYS', secrets_key())) do
    if string.find(name, pattern) then redis.call('HDEL', secrets_key(), name) end
  end
end
-- Makes another version of the secrets, which processes remember.
local function note_secrets() change('HSET', E, 'secrets_at', table.concat(redis.call('TIME'), '.')) end
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
-- Reads a client's URL and the secrets that go to it, of one moment.
-- Answer: {url ('': none), names and values of the secrets}
entry('readTarget', function()
  return {redis.call('HGET', base .. 'registration', 'url') or '', redis.call('HGETALL', secrets_key())}
end, {'no-writes'})
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
-- Returns the field of the request for another URL, until when it waits or is shown, its state and its reference; nil if there is none.
local function asked()
  for _, name in ipairs(redis.call('HKEYS', secrets_key())) do
    local till, state, reference = string.match(name, '^asked:(%d+):(%a+):(%S+)$')
    if till then return name, tonumber(till), state, reference end
  end
end
-- Returns whether the request with this reference waits.
local function is_asked(wanted)
  local _, till, state, reference = asked()
  return state == 'waiting' and reference == wanted and till > now
end
-- Answers the request for another URL, if one waits. Returns until when that is shown.
local function answer_asked(answer)
  local name, _, state, reference = asked()
  if state ~= 'waiting' then return end
  local sealed = redis.call('HGET', secrets_key(), name)
  redis.call('HDEL', secrets_key(), name)
  redis.call('HSET', secrets_key(), string.format('asked:%d:%s:%s', now + const.url_request_ms, answer, reference), sealed)
  return now + const.url_request_ms
end
-- Keeps a URL that an operator has changed or removed, sealed, in this field, and at most ten; drops those that have ended, and ends a
-- request for another URL. `former_end`: when the first of the others ends.
local FORMER_AT_MOST = 10
local function keep_former(field, sealed)
  local S, kept, ends = secrets_key(), {}, nil
  if field and field ~= '' then redis.call('HSET', S, field, sealed) end
  for _, name in ipairs(redis.call('HKEYS', S)) do
    local till = string.match(name, '^former:(%d+)')
    if till then kept[#kept + 1] = {tonumber(till), name} end
  end
  table.sort(kept, function(a, b) return a[1] > b[1] end)
  for i, one in ipairs(kept) do
    if i > FORMER_AT_MOST or one[1] <= now and is_sure() then redis.call('HDEL', S, one[2]) else ends = one[1] end
  end
  local name, till, state = asked()
  if till and till <= now and is_sure() then
    till = answer_asked('void')
    if state ~= 'waiting' then redis.call('HDEL', S, name) end
  end
  if till then ends = math.min(ends or till, till) end
  if ends then change('HSET', E, 'former_end', ends) else change('HDEL', E, 'former_end') end
end
-- Drops the former URLs and the request for another URL that were kept for long enough.
entry('dropFormer', function() keep_former() end, {'allow-oom'})
-- Keeps a request for another URL, in the place of an earlier one.
-- Arguments: field, sealed (the request)
-- Answer: 1, or 0 if the client has no URL
entry('askUrl', function(_, ARGV)
  if redis.call('HEXISTS', base .. 'registration', 'url') == 0 then return 0 end
  local name = asked()
  if name then redis.call('HDEL', secrets_key(), name) end
  keep_former(ARGV[2], ARGV[3])
  return 1
end)
-- Declines a request for another URL.
-- Arguments: reference
-- Answer: 1, or 0 if it waits no more
-- Repeat: the second call answers 0
entry('declineUrl', function(_, ARGV)
  if not is_asked(ARGV[2]) then return 0 end
  answer_asked('declined')
  keep_former()
  return 1
end, {'allow-oom'})
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
