-- Imports a client and its signing secrets if nothing exists under its token.
-- include: client, compare
-- KEYS: the client's base
-- Arguments: fields, secrets (JSON)
-- Answer: 'new' (it was written), 'same' or 'different'
-- Repeat: safe: a second call finds the same

local fields, secrets = cjson.decode(ARGV[2]), cjson.decode(ARGV[3])
local client, S = base .. 'client', base .. 'signing-secrets'
local found, of_secrets = compared(client, fields), compared(S, secrets)
if found == 'different' or of_secrets == 'different' then return 'different' end
if found == 'same' and of_secrets == 'new' then return 'different' end
write(S, secrets)
write(client, fields)
return found
