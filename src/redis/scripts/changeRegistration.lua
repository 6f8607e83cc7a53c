-- Replaces a client's URL.
-- include: client, endpoint, dueNow
-- KEYS: the client's base
-- Arguments: url, nonce (new: an unanswered call of the API can no longer mark it), by (operator or publisher)
-- Answer: {the previous URL, '1' if catch-up must be woken}, or nil if there is none
-- Repeat: safe: the same URL is stored again, as another generation

local url, nonce, by = ARGV[2], ARGV[3], ARGV[4]
local R = base .. 'registration'
local previous, from = redis.call('HGET', R, 'url'), seen()
if not previous then return false end
redis.call('HSET', R, 'url', url, 'nonce', nonce, 'answered', '1', 'registered_at', now)
redis.call('HDEL', R, 'pending_since')
redis.call('HSET', R, 'generation', new_generation())
note_change(from, 'the url was changed', by)
return {previous, due_now()}
