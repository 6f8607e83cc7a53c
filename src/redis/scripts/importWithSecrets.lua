-- Imports a client, or the notices URL of an account, with its signing secrets if nothing exists under its name.
-- include: client, compare
-- KEYS: the client's base, or that of a recipient of notices
-- Arguments: name (of the hash: 'client' or 'notices'), fields, secrets (JSON)
-- Answer: 'new' (it was written), 'same' or 'different'
-- Repeat: safe: a second call finds the same

local name, fields, secrets = ARGV[2], cjson.decode(ARGV[3]), cjson.decode(ARGV[4])
local H, S = base .. name, base .. 'signing-secrets'
local set_by_account = name == 'notices' and {url = true, set_at = true} or nil
local found, of_secrets = compared(H, fields, set_by_account), compared(S, secrets)
if found == 'different' or of_secrets == 'different' then return 'different' end
if found == 'same' and of_secrets == 'new' then return 'different' end
write(S, secrets)
write(H, fields)
return found
