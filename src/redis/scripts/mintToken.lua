-- Mints an access token for an account's credentials. Account and token are read and written in one step, so that no token
-- is minted under an account that is being disabled or rotated. It does the same work for an unknown account, a wrong
-- secret and a disabled account. Lua interns strings, so the time of a comparison does not depend on their content.
-- KEYS: the account, the token
-- Arguments: secret_hash, now_ms, scopes (asked for), ttl_ms
-- Answer: 'minted', 'invalid_client' or 'invalid_scope'
-- Repeat: safe: the same token is written once more

local secret_hash, now_ms, scopes, ttl_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local account = redis.call('HMGET', KEYS[1], 'secret_hash', 'previous_secrets', 'disabled', 'scopes', 'generation')
local matches = account[1] == secret_hash
for hash, till in string.gmatch(account[2] or '', '(%x+):(%d+)') do
  if hash == secret_hash and tonumber(till) > now_ms then matches = true end
end
if not matches or account[3] == '1' then return 'invalid_client' end
local held = ' ' .. (account[4] or '') .. ' '
for scope in string.gmatch(scopes, '%S+') do
  if not string.find(held, ' ' .. scope .. ' ', 1, true) then return 'invalid_scope' end
end
redis.call('SET', KEYS[2], account[5] .. ' ' .. scopes, 'PX', ttl_ms)
return 'minted'
