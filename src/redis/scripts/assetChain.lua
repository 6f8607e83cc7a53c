-- Follows the chain of an asset's claims back from one notification.
-- include: client, notification, known
-- KEYS: the client's base
-- Arguments: id (where it begins), count (how many at most)
-- Answer: {{accepted at, state, bytes of the previous id} of each, 1 if the predecessor of the last one has no record}
-- Repeat: safe: it changes nothing

local id, count = ARGV[2], tonumber(ARGV[3])
local found = {}
for _ = 1, count do
  local r = redis.call('HMGET', record(id), 'accepted_at', 'state', 'before')
  if not r[1] then return {found, 1} end
  found[#found + 1] = {r[1], r[2] or 'waiting', r[3] or ''}
  if not r[3] then break end
  id = id_text(r[3])
end
return {found, 0}
