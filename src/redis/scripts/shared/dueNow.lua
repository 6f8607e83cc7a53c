-- Makes all waiting assets due, for a new URL.
-- include: client, endpoint

-- Answers '1' if something waits for which catch-up must be woken.
local function due_now()
  if redis.call('HLEN', base .. 'owed') == 0 then return '0' end
  pull_forward()
  return '1'
end
