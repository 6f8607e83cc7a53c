-- Reads how far a client's deliveries are behind, and their bounds.
-- include: client, table, notification, endpoint
-- KEYS: the client's base
-- Arguments, in q:
--   retention: how long something is owed at most, ms
--   places: attempts in flight of a client without its own bound
--   drain: the drain rate, per second
--   overdue: an asset is overdue if it was due this many ms ago
--   overdue_before: the time to use instead, ms; 0: none
-- Answer: {now, hold, due at or -1, overdue, overdue before, in flight, places, rate per second (text, '0': none), time of
--   the next place, whether owed and due agree}
-- Repeat: safe: it changes nothing

local overdue_before = q.overdue_before
if overdue_before == 0 then overdue_before = now - q.overdue end
local next_at, overdue = math.huge, 0
for _, asset in ipairs(redis.call('HKEYS', base .. 'flight')) do
  local f = flight_of(asset)
  -- Its lease is over: it is due again.
  if f.lease <= now then
    next_at = math.min(next_at, f.lease)
    if f.lease < overdue_before then overdue = overdue + 1 end
  end
end
for _, lane in pairs(LANES) do
  local first = redis.call('ZRANGE', base .. lane, 0, 0, 'WITHSCORES')
  if first[2] then next_at = math.min(next_at, tonumber(first[2])) end
  overdue = overdue + redis.call('ZCOUNT', base .. lane, '-inf', '(' .. string.format('%d', overdue_before))
end
local oldest = tonumber(redis.call('ZRANGE', base .. 'owed-since', 0, 0, 'WITHSCORES')[2] or now)
local expires = oldest + q.retention
local hold
if redis.call('HEXISTS', base .. 'registration', 'url') == 0 then hold = 'no_url'
elseif field('held') == '1' then hold = 'held'
elseif field('paused') == '1' then hold = 'paused'
elseif state() == 'suspended' then hold = 'suspended' end
if hold then next_at = next_at < math.huge and expires or next_at
else
  hold = number('not_before') > now and 'not_before' or 'none'
  if state() == 'failing' then
    hold = 'failing'
    next_at = math.max(next_at, number('probe_at'), probe_end(field('probe')) or 0)
  end
  next_at = math.max(math.min(math.max(next_at, number('not_before')), expires), number('recovered_at'))
end
local client = redis.call('HMGET', base .. 'client', 'max_in_flight', 'max_per_second')
local per_second, place_at = tonumber(client[2] or '0'), number('rate_at')
if oldest < number('recovered_at') and (per_second == 0 or q.drain < per_second) then
  per_second, place_at = q.drain, number('drain_at')
end
local waiting = redis.call('HLEN', base .. 'owed')
local is_consistent = waiting == redis.call('ZCARD', base .. 'owed-since')
  and waiting == redis.call('ZCARD', base .. 'due:live') + redis.call('ZCARD', base .. 'due:backfill')
return {
  now, hold, next_at < math.huge and math.floor(next_at) or -1, overdue, overdue_before, in_flight(),
  tonumber(client[1] or q.places), tostring(per_second), math.floor(place_at),
  is_consistent and 1 or 0,
}
