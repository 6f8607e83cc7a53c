-- Rates that all processes share.

-- Counts a call towards a rate, which allows `burst` calls at once and one more every `every` ms. Its key has the time at which the whole
-- burst is there again, and expires then. Returns in how many ms the call may be made (0: it was counted), and in how many the burst is
-- there again. Less than a ms is no wait: sums of fractions are not exact.
local function count_call(key, every, burst)
  local full_in = math.max(noted(tonumber(redis.call('GET', key) or '0'), every * burst) - now, 0)
  local wait_ms = full_in + every - every * burst
  if wait_ms >= 1 then return math.ceil(wait_ms), math.floor(full_in) end
  full_in = full_in + every
  redis.call('SET', key, string.format('%.3f', now + full_in), 'PX', math.ceil(full_in))
  return 0, math.floor(full_in)
end
-- KEYS: the rate
-- Arguments: every, burst
-- Answer: the two numbers of `count_call`
-- Repeat: counts twice
entry('countCall', function(KEYS, ARGV) return {count_call(KEYS[1], tonumber(ARGV[2]), tonumber(ARGV[3]))} end)
