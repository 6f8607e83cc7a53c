-- The beginning of every call, and what all parts share. The files of this folder are one library of Redis functions: what
-- stands at the margin runs once, when a server loads the library (src/redis/connection/library.ts). Before them that file puts
-- `RELEASE`, `const` and `args`: the constants that they share with TypeScript (src/constants.ts), and the readers of named arguments
-- (src/redis/connection/arguments.ts).

-- The prefix of the client's keys (KEYS[1]), its endpoint's hash, and Redis' clock in ms. From ARGV[1]: what is added to that clock, the
-- caller's clock, and the step back of this server's clock that the caller knows of (`witnessClock`; 0: none).
local base, E, now, callers_now, turned
local resets = {}
-- Declares how a variable of a part begins in each call.
local function at_begin(reset) resets[#resets + 1] = reset end
-- What this call has read of its client: `health` and `limits` read each once. Whoever writes the hashes that these are read from uses
-- `change`, which forgets what was read, or `note`, which keeps it and writes numbers of the endpoint's hash to both.
local facts
local function change(...)
  facts = {}
  return redis.call(...)
end
local function note(...)
  redis.call('HSET', E, ...)
  local given = {...}
  for i = 1, facts.health and #given or 0, 2 do facts.health[given[i]] = tonumber(given[i + 1]) end
end
-- Later than any time.
local FAR = 8640000000000000
-- Returns a time that was noted before; the present if it lies further ahead than `ahead` ms, since Redis' clock was set back then.
local function noted(at, ahead) return at > now + ahead and now or at end
-- Whether the clocks of Redis and the caller agree. While they do not, no time decides what cannot be undone: one of the clocks is wrong.
local function is_sure() return math.abs(now - callers_now) <= const.clocks_agree_ms end
-- Registers a function by which TypeScript calls the library. The comment before it names the arguments from ARGV[2] on and the
-- answer; KEYS, if it is not a client's base; and how the function is repeated, if a repeated call is not safe by itself.
local function entry(name, run, flags)
  redis.register_function({
    function_name = name .. RELEASE,
    flags = flags or {},
    callback = function(KEYS, ARGV)
      base, E, facts = KEYS[1], KEYS[1] .. 'endpoint', {}
      local time, added, callers, known_turn = redis.call('TIME'), string.match(ARGV[1], '^(%S+) (%S+) (%S+)$')
      now = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(added)
      callers_now, turned = tonumber(callers), tonumber(known_turn)
      for i = 1, #resets do resets[i]() end
      return run(KEYS, ARGV)
    end,
  })
end
