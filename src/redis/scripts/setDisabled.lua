-- Disables or enables an account, and ends all of its tokens.
-- KEYS: the account
-- Arguments: disabled ('1' or '0')
-- Answer: 1, or 0 if there is no such account
-- Repeat: safe: tokens end once more

local disabled = ARGV[1]
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'disabled', disabled)
redis.call('HINCRBY', KEYS[1], 'generation', 1)
return 1
