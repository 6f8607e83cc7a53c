-- Changes accounts, mints their tokens, and records their calls. The first key of each is the account's, or beside it.

-- Mints an access token for an account's credentials. Account and token are read and written in one step, so that no token
-- is minted under an account that is being disabled or rotated. It does the same work for an unknown account, a wrong
-- secret and a disabled account. Lua interns strings, so the time of a comparison does not depend on their content.
-- KEYS: the account, the token
-- Arguments: secret_hash, scopes (asked for), ttl_ms
-- Answer: 'minted', 'invalid_client' or 'invalid_scope'
entry('mintToken', function(KEYS, ARGV)
  local secret_hash, scopes = ARGV[2], ARGV[3]
  local account = redis.call('HMGET', KEYS[1], 'secret_hash', 'previous_secrets', 'disabled', 'scopes', 'generation')
  local matches = account[1] == secret_hash
  for hash, till in string.gmatch(account[2] or '', '(%x+):(%d+)') do
    if hash == secret_hash and tonumber(till) > now then matches = true end
  end
  if not matches or account[3] == '1' then return 'invalid_client' end
  local held_scopes = ' ' .. (account[4] or '') .. ' '
  for scope in string.gmatch(scopes, '%S+') do
    if not string.find(held_scopes, ' ' .. scope .. ' ', 1, true) then return 'invalid_scope' end
  end
  redis.call('SET', KEYS[2], account[5] .. ' ' .. scopes, 'PX', ARGV[4])
  return 'minted'
end)
-- Gives an account another client secret. The old one stays valid for a while, or all old ones and every token end now.
-- KEYS: the account
-- Arguments: hash (of the new secret), until_ms (how long the old one is valid), '1' if all end now
-- Answer: 1, or 0 if there is no such account
-- Repeat: the new secret is also listed among the previous ones, which gives nobody else access
entry('rotateSecret', function(KEYS, ARGV)
  local A = KEYS[1]
  local old = redis.call('HGET', A, 'secret_hash')
  if not old then return 0 end
  if ARGV[4] == '1' then
    redis.call('HDEL', A, 'previous_secrets')
    redis.call('HINCRBY', A, 'generation', 1)
  else
    local kept = {old .. ':' .. ARGV[3]}
    for previous, till in string.gmatch(redis.call('HGET', A, 'previous_secrets') or '', '(%x+):(%d+)') do
      if tonumber(till) > now then kept[#kept + 1] = previous .. ':' .. till end
    end
    redis.call('HSET', A, 'previous_secrets', table.concat(kept, ','))
  end
  redis.call('HSET', A, 'secret_hash', ARGV[2])
  return 1
end)
-- Disables or enables an account, and ends all of its tokens.
-- KEYS: the account
-- Arguments: disabled ('1' or '0')
-- Answer: 1, or 0 if there is no such account
entry('setDisabled', function(KEYS, ARGV)
  if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
  redis.call('HSET', KEYS[1], 'disabled', ARGV[2])
  redis.call('HINCRBY', KEYS[1], 'generation', 1)
  return 1
end, {'allow-oom'})
-- Replaces an account's scopes, and ends all of its tokens if one is removed.
-- KEYS: the account
-- Arguments: scopes
-- Answer: 1, or 0 if there is no such account
entry('setScopes', function(KEYS, ARGV)
  local before = redis.call('HGET', KEYS[1], 'scopes')
  if not before then return 0 end
  local given = ' ' .. ARGV[2] .. ' '
  for scope in string.gmatch(before, '%S+') do
    if not string.find(given, ' ' .. scope .. ' ', 1, true) then
      redis.call('HINCRBY', KEYS[1], 'generation', 1)
      break
    end
  end
  redis.call('HSET', KEYS[1], 'scopes', ARGV[2])
  return 1
end)
-- Records a call of the API; a repeat is left out for as long as its mark stands. An entry that bears on security goes, once in a
-- time, to the account's other stream, which is trimmed by age only; its repeats in that time are trimmed like all others.
-- KEYS: the account's stream, its stream of security, the mark of the same call, the mark of the same kind of call
-- Arguments: entry, kept (how many), kept_ms, mark_ms (how long the first mark stands; '0': none), security_ms (the same of the
--   second mark; '0' for a call that does not bear on security)
-- Answer: 1, or 0 if it was left out
-- Repeat: records the call once more, unless its mark stands
entry('recordCall', function(KEYS, ARGV)
  local call, kept, kept_ms = ARGV[2], ARGV[3], ARGV[4]
  local function is_first(mark, ms) return ms ~= '0' and redis.call('SET', mark, '1', 'NX', 'PX', ms) end
  if ARGV[5] ~= '0' and not is_first(KEYS[3], ARGV[5]) then return 0 end
  local stream, trim = KEYS[1], {'MAXLEN', '~', kept}
  if is_first(KEYS[4], ARGV[6]) then stream, trim = KEYS[2], {'MINID', '~', now - tonumber(kept_ms)} end
  redis.call('XADD', stream, trim[1], trim[2], trim[3], '*', 'call', call)
  redis.call('PEXPIRE', stream, kept_ms)
  return 1
end)
