-- Imports an account if nothing exists under its id.
-- include: compare
-- KEYS: the account
-- Arguments: fields (JSON)
-- Answer: 'new' (it was written), 'same' or 'different'
-- Repeat: safe: a second call finds the same

local fields = cjson.decode(ARGV[1])
local found = compared(KEYS[1], fields)
if found == 'new' then write(KEYS[1], fields) end
return found
