-- Settles the attempts of one client that have ended. Used instead of `turn` if nothing is wanted: it has a third fewer functions.
-- include: client, table, notification, settle
-- KEYS: the client's base
-- Arguments, in q:
--   lease, schedule, verdicts, given_back, extended: see turn.lua
-- Answer: {{answer of each verdict}, {1 if the lease was still held}}
-- Repeat: safe: a verdict counts once, with its token

local settled, extended = {}, {}
local done, failure = pcall(settle_turn, settled, extended)
-- This runs also after a failure above: an owed asset without a due time would wait for ever.
write_waiting()
if not done then error(failure) end
return {settled, extended}
