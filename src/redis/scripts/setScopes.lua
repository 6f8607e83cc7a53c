-- Replaces an account's scopes, and ends all of its tokens if one is removed.
-- KEYS: the account
-- Arguments: scopes
-- Answer: 1, or 0 if there is no such account
-- Repeat: safe: nothing more is removed

local scopes = ARGV[1]
local before = redis.call('HGET', KEYS[1], 'scopes')
if not before then return 0 end
local given = ' ' .. scopes .. ' '
for scope in string.gmatch(before, '%S+') do
  if not string.find(given, ' ' .. scope .. ' ', 1, true) then
    redis.call('HINCRBY', KEYS[1], 'generation', 1)
    break
  end
end
redis.call('HSET', KEYS[1], 'scopes', scopes)
return 1
