-- Gives an account another client secret. The old one stays valid for a while, or all old ones and every token end now.
-- KEYS: the account
-- Arguments: hash (of the new secret), until_ms (how long the old one is valid), is_at_once ('1': all end now), now_ms
-- Answer: 1, or 0 if there is no such account
-- Repeat: the new secret is also listed among the previous ones, which gives nobody else access

local hash, until_ms, is_at_once, now_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local A = KEYS[1]
local old = redis.call('HGET', A, 'secret_hash')
if not old then return 0 end
if is_at_once == '1' then
  redis.call('HDEL', A, 'previous_secrets')
  redis.call('HINCRBY', A, 'generation', 1)
else
  local kept = {old .. ':' .. until_ms}
  for previous, till in string.gmatch(redis.call('HGET', A, 'previous_secrets') or '', '(%x+):(%d+)') do
    if tonumber(till) > now_ms then kept[#kept + 1] = previous .. ':' .. till end
  end
  redis.call('HSET', A, 'previous_secrets', table.concat(kept, ','))
end
redis.call('HSET', A, 'secret_hash', hash)
return 1
