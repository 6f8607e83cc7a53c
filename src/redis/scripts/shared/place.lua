-- Reads a page of a sorted set after a place: n lookups for a set of 2^n, even if many members share a score.

-- Compares by bytes, as the sorted set does: Lua's own < uses the server's locale.
local function is_less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end
-- Returns alternating members and scores.
local function page_behind(key, direction, score, member, count)
  local is_rising = direction == 'rising'
  local read, low, high = is_rising and 'ZRANGE' or 'ZREVRANGE', nil, nil
  if is_rising then
    low, high = redis.call('ZCOUNT', key, '-inf', '(' .. score), redis.call('ZCOUNT', key, '-inf', score)
  else
    low, high = redis.call('ZCOUNT', key, '(' .. score, '+inf'), redis.call('ZCOUNT', key, score, '+inf')
  end
  if member == '' then high = low end
  while low < high do
    local middle = math.floor((low + high) / 2)
    local there = redis.call(read, key, middle, middle)[1]
    local is_behind
    if is_rising then is_behind = is_less(member, there) else is_behind = is_less(there, member) end
    if is_behind then high = middle else low = middle + 1 end
  end
  return redis.call(read, key, low, low + count - 1, 'WITHSCORES')
end
