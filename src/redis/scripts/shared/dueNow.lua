-- Makes all that waits due, for a new URL.
-- include: client, endpoint

-- Answers '1' where something waits, and catch-up must be woken for it.
local function due_now()
  if redis.call('HLEN', base .. 'owed') == 0 then return '0' end
  pull_forward()
  return '1'
end
