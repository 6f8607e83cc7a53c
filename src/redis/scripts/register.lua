-- Stores a client's URL, unanswered, if it has none; takes over an equal one that no call can be answering any more.
-- include: client, table, endpoint, dueNow
-- KEYS: the client's base
-- Arguments, in q:
--   url, account_id
--   nonce: identifies this call
--   take_over_after: age (ms) from which an unanswered one is taken over
-- Answer: {'stored', '1' if catch-up must be woken}, {'taken'} or {'pending'}
-- Repeat: safe: the nonce finds the URL that it has stored

local R = base .. 'registration'
local url, account, answered, since, nonce =
  unpack(redis.call('HMGET', R, 'url', 'account_id', 'answered', 'pending_since', 'nonce'))
if url then
  if nonce == q.nonce then return {'stored', due_now()} end
  if answered == '1' or url ~= q.url or account ~= q.account_id then return {'taken'} end
  if now - tonumber(since or '0') < q.take_over_after then return {'pending'} end
  redis.call('HSET', R, 'nonce', q.nonce, 'pending_since', now)
  return {'stored', due_now()}
end
redis.call('HSET', R, 'url', q.url, 'account_id', q.account_id, 'nonce', q.nonce,
  'answered', '0', 'pending_since', now, 'registered_at', now)
redis.call('HSET', R, 'generation', new_generation())
note_change('not_registered', 'registered', 'publisher')
return {'stored', due_now()}
