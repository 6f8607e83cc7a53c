-- Answers whether catch-up must be woken for something due later, and if so notes that it will be awake by then.
-- include: client, endpoint
-- KEYS: the client's base
-- Arguments: in_ms
-- Answer: 1 if it must be woken, else 0
-- Repeat: a second call answers 0; after a failed wake-up the note is removed first (forgetWakeUp)

local in_ms = tonumber(ARGV[2])
if redis.call('EXISTS', base .. 'owed', base .. 'flight') == 0 then return 0 end
return wake_by(now + in_ms)
