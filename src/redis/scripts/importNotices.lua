-- Imports the notices URL of an account and its signing secrets if it has none.
-- include: client, compare
-- KEYS: the base of a recipient of notices
-- Arguments: fields, secrets (JSON)
-- Answer: 'new' (it was written), 'same' or 'different'
-- Repeat: safe: a second call finds the same

local fields, secrets = cjson.decode(ARGV[2]), cjson.decode(ARGV[3])
local N, S = base .. 'notices', base .. 'signing-secrets'
local found, of_secrets = compared(N, fields, {url = true, set_at = true}), compared(S, secrets)
if found == 'different' or of_secrets == 'different' then return 'different' end
if found == 'same' and of_secrets == 'new' then return 'different' end
write(S, secrets)
write(N, fields)
return found
