-- Settles the attempts of one client that have ended, then takes the ones that come next.
-- include: client, table, endpoint, notification, known, settle, take
-- KEYS: the client's base
-- Arguments, in q; an empty list is left out:
--   lease, bound, drain, nonce: see shared/take.lua
--   schedule: of retries and probes, if a verdict is a failure
--   verdicts: see settle_attempt in shared/settle.lua
--   given_back: lists of asset, token, id of a redelivery (else false), in how many ms it is due
--   extended: lists of asset, token, id of a redelivery (else false)
--   wanted: lists of asset, id, mode, claim (0: not known), bucket, may_use_all
-- Bytes: of each wanted its asset's field in the bucket (8)
-- Answer: {{answer of each verdict}, {1 if the lease was still held}, {answer of each wanted}, url, signing secrets,
--   wake catch-up}
-- Repeat: safe: a verdict counts once, by its token, and the nonce finds the assets that it has taken

local settled, extended, takes, has_taken = {}, {}, {}, false
local done, failure = pcall(function()
  settle_turn(settled, extended)
  for i, w in ipairs(q.wanted) do
    local asset, id, mode, claim, bucket, may_use_all = unpack(w)
    takes[i] = take_attempt(asset, id, mode, claim, bucket, bytes(8), may_use_all)
    has_taken = has_taken or takes[i][1] == 'taken'
  end
end)
-- This runs also after a failure above: an owed asset without a due time would wait for ever.
write_waiting()
if not done then error(failure) end
return {settled, extended, takes, has_taken and common().url or '', has_taken and signing_secrets() or {}, needs_wake}
