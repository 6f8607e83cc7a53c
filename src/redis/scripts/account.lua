-- Changes accounts, mints their tokens, and records their calls. The first key of each is the account's, or beside it.

-- Mints an access token for an account's credentials. Account and token are read and written in one step, so that no token
-- is minted under an account that is being disabled or rotated. It does the same work for an unknown account, a wrong
-- secret and a disabled account. Lua interns strings, so the time of a comparison does not depend on their content.
-- KEYS: the account, the token, the rate of the account's tokens
-- Arguments: secret_hash, scopes (asked for), ttl_ms, per_second (the rate, and how many tokens it allows at once)
-- Answer: {'minted', 'invalid_client', 'invalid_scope' or 'too_many', ms to wait}
entry('mintToken', function(KEYS, ARGV)
  local secret_hash, scopes, per_second = ARGV[2], ARGV[3], tonumber(ARGV[5])
  local account = redis.call('HMGET', KEYS[1], 'secret_hash', 'previous_secrets', 'disabled', 'scopes', 'generation')
  local matches = account[1] == secret_hash
  for hash, till in string.gmatch(account[2] or '', '(%x+):(%d+)') do
    if hash == secret_hash and tonumber(till) > now then matches = true end
  end
  if not matches or account[3] == '1' then return {'invalid_client', 0} end
  local held_scopes = ' ' .. (account[4] or '') .. ' '
  for scope in string.gmatch(scopes, '%S+') do
    if not string.find(held_scopes, ' ' .. scope .. ' ', 1, true) then return {'invalid_scope', 0} end
  end
  local wait_ms = count_call(KEYS[3], 1000 / per_second, per_second)
  if wait_ms > 0 then return {'too_many', wait_ms} end
  redis.call('SET', KEYS[2], account[5] .. ' ' .. scopes, 'PX', ARGV[4])
  return {'minted', 0}
end)
-- Creates an account, unless it is there.
-- KEYS: the account
-- Arguments: its fields, each with its value
-- Answer: 1, or 0 if it is there
entry('createAccount', function(KEYS, ARGV)
  if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
  redis.call('HSET', KEYS[1], unpack(ARGV, 2))
  return 1
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
      if tonumber(till) > now or not is_sure() then kept[#kept + 1] = previous .. ':' .. till end
    end
    redis.call('HSET', A, 'previous_secrets', table.concat(kept, ','))
  end
  redis.call('HSET', A, 'secret_hash', ARGV[2])
  return 1
end)
-- Disables or enables an account, or replaces its scopes. Ends all of its tokens, unless it is enabled or only gets more scopes.
-- KEYS: the account
-- Arguments: field ('disabled' or 'scopes'), value
-- Answer: the scopes before, or 0 if there is no such account
-- Repeat: answers the new scopes
entry('changeAccount', function(KEYS, ARGV)
  local A, field, value = KEYS[1], ARGV[2], ARGV[3]
  local before, ends = redis.call('HGET', A, 'scopes'), field == 'disabled' and value == '1'
  if not before then return 0 end
  for scope in string.gmatch(field == 'scopes' and before or '', '%S+') do
    ends = ends or not string.find(' ' .. value .. ' ', ' ' .. scope .. ' ', 1, true)
  end
  redis.call('HSET', A, field, value)
  if ends then redis.call('HINCRBY', A, 'generation', 1) end
  return before
end, {'allow-oom'})
-- Records a call of the API; an equal one is left out for as long as its mark stands. An entry that bears on security goes to the
-- account's other stream, which is trimmed by age only. What may go there in a day is bounded; marks stand only for what went there.
-- KEYS: the account's stream, its stream of security, the day's count, the marks of an equal call, of the token, of the network
-- Arguments: entry, kept (how many), kept_ms, once_ms (how long the first mark stands; '0': none), most_all (how many entries of a
--   day go to the stream of security, whatever they are), most (how many with those that are the first of their token or network
--   since; '0': the call does not bear on security), '1' if a call over the bound is refused, day_ms
-- Answer: {the entry's id, or '' if it was left out or refused, ms until the bound allows a refused call, else 0}
-- Repeat: records the call once more, unless its mark stands
entry('recordCall', function(KEYS, ARGV)
  local call, kept, kept_ms, once_ms = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
  local most_all, most, is_refused, day_ms = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] == '1', ARGV[9]
  if once_ms > 0 and redis.call('EXISTS', KEYS[4]) == 1 then return {'', 0} end
  local count = most > 0 and tonumber(redis.call('GET', KEYS[3]) or '0')
  local is_first = most > 0 and (most_all == most or redis.call('EXISTS', KEYS[5], KEYS[6]) < 2)
  if most > 0 and is_first and count >= most and is_refused then return {'', redis.call('PTTL', KEYS[3])} end
  local stream, trim = KEYS[1], {'MAXLEN', '~', kept}
  if most > 0 and (count < most_all or (is_first and count < most)) then
    stream, trim = KEYS[2], {'MINID', '~', is_sure() and now - tonumber(kept_ms) or 0}
    if redis.call('INCR', KEYS[3]) == 1 then redis.call('PEXPIRE', KEYS[3], day_ms) end
    if once_ms > 0 then redis.call('SET', KEYS[4], '1', 'PX', once_ms) end
    if most_all < most then
      for i = 5, 6 do redis.call('SET', KEYS[i], '1', 'PX', day_ms) end
    end
  end
  local id = redis.call('XADD', stream, trim[1], trim[2], trim[3], '*', 'call', call)
  redis.call('PEXPIRE', stream, kept_ms)
  return {id, 0}
end)
