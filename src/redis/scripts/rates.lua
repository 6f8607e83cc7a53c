-- Rates that all processes share.

-- What was counted without being allowed (`is_owed`) delays later calls by so much (ms) at most.
local LONGEST_DEBT = 30000
-- Counts a call towards a rate, which allows `burst` calls at once and one more every `every` ms; with `is_owed`, also a call that the rate
-- does not allow. Its key has the time at which the whole burst is there again, and expires then. Returns in how many ms the call may be
-- made (0: it was counted), and in how many the burst is there again. Less than a ms is no wait: sums of fractions are not exact.
local function count_call(key, every, burst, is_owed)
  local longest = every * burst + LONGEST_DEBT
  local full_in = math.max(noted(tonumber(redis.call('GET', key) or '0'), longest) - now, 0)
  local wait_ms = full_in + every - every * burst
  if wait_ms >= 1 and not is_owed then return math.ceil(wait_ms), math.floor(full_in) end
  full_in = math.min(full_in + every, longest)
  redis.call('SET', key, string.format('%.3f', now + full_in), 'PX', math.ceil(full_in))
  return 0, math.floor(full_in)
end
-- KEYS: the rate
-- Arguments: every, burst, '1' if it is counted even where the rate does not allow it
-- Answer: the two numbers of `count_call`
-- Repeat: counts twice
entry('countCall', function(KEYS, ARGV) return {count_call(KEYS[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1')} end)
