-- Imports a registration and the decided fields of its endpoint. The client's clock starts with the URL.
-- include: client, endpoint, compare
-- KEYS: the client's base
-- Arguments: registration, endpoint, decided (which fields of the endpoint count; all JSON)
-- Answer: 'new' (it was written), 'same' or 'different'
-- Repeat: safe: a second call finds the same

local registration, endpoint, decided = cjson.decode(ARGV[2]), cjson.decode(ARGV[3]), cjson.decode(ARGV[4])
local R, counts = base .. 'registration', {}
for _, name in ipairs(decided) do counts[name] = true end
local found, of_endpoint = compared(R, registration), compared(E, endpoint, counts)
if found == 'same' and of_endpoint == 'same' then return 'same' end
local is_decided = of_endpoint == 'different' or (of_endpoint == 'same' and next(endpoint) ~= nil)
if redis.call('EXISTS', R) == 1 or is_decided then return 'different' end
local from = seen()
write(R, registration)
write(E, endpoint)
sync_clock()
note_change(from, 'imported', 'operator')
return 'new'
