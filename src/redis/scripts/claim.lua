-- Claims events of one client, and takes the assets that may be sent now (rule 1 of docs/architecture.md). It decides once
-- for each event whether it makes a notification, and by which notification its asset is owed.
-- include: client, table, endpoint, notification, known, take
-- KEYS: the client's base
-- Arguments, in q:
--   lease, bound, drain, nonce: see shared/take.lua
--   take: whether to take the claimed assets
--   keep: after how long without an event an asset's known segments are forgotten (s); 0: never
--   events: lists of bucket, length of the fingerprints, id, asset, event id, lane, accepted at (ms), silent, group ('':
--     none), number of its claim that may be lost (0: not claimed before), body (absent: that of an asset update)
-- Bytes: of each event its asset's field in the bucket (8), its id (16), its fingerprints (6 each)
-- Answer: {url, signing secrets, wake catch-up, {answer of each event}}, an answer being one of {'unknown_client'},
--   {'none', reason}, {'claimed' or 'mine', claim number, held, take, 1 if it superseded another}, {'ended', state, held},
--   {'not_needed', by}
-- Repeat: safe: an event recognises that it claimed its asset last, and the nonce finds the assets that it has taken

local function held()
  local c = common()
  return c.is_paused and 'paused' or c.state == 'suspended' and 'suspended' or ''
end
-- Adds an update to the feed that its readers would not find in the list (src/redis/notifications/updates.ts).
local function tell(id, asset)
  redis.call('XADD', base .. 'updates', 'MAXLEN', '~', '10001', '*', 'id', id, 'asset', asset)
end
local has_listed = false
local function write_claim(e, claimed, segments, new)
  local bucket, _, id, asset, event, lane, accepted_at, _, group, _, body = unpack(e)
  local replaces
  lane, replaces = owe(asset, id, lane)
  write_known(bucket, e.slot, claimed, e.id_bytes, segments .. new)
  local fields = {'asset', asset, 'event', event, 'accepted_at', accepted_at}
  if lane == 'B' then fields[#fields + 1], fields[#fields + 2] = 'priority', 'backfill' end
  if group ~= '' then fields[#fields + 1], fields[#fields + 2] = 'group', group end
  if body then fields[#fields + 1], fields[#fields + 2] = 'body', body end
  redis.call('HSET', record(id), unpack(fields))
  list(id, accepted_at)
  has_listed = true
  if tonumber(accepted_at) <= updates_until then tell(id, asset) end
  return {'claimed', claimed, held(), false, replaces and 1}
end
local function claim_again(e, claimed, last, segments, new)
  local _, _, id, asset, event, _, accepted_at, _, _, lost = unpack(e)
  local state = state_of(id)
  if state and state ~= 'waiting' then return {'ended', state, held()} end
  local function end_unclaimed(as, by, reason)
    close(id, {'asset', asset, 'event', event, 'accepted_at', accepted_at}, as, by, reason)
  end
  if common().is_deleted then
    -- The deletion cancels owed notifications; an unclaimed event ends here.
    if not state then end_unclaimed('cancelled', nil, 'client_deleted') end
    return {'ended', 'cancelled', ''}
  end
  if last == e.id_bytes then return {'mine', claimed, held()} end
  if new ~= '' or claimed < lost then return write_claim(e, claimed + 1, segments, new) end
  end_unclaimed('not_needed', id_text(last))
  list(id, accepted_at)
  has_listed = true
  decide(asset, event, 'not_needed')
  return {'not_needed', id_text(last) or false}
end
local function claim_event(e)
  local bucket, length, id, asset, event, _, _, is_silent, _, lost = unpack(e)
  e.slot, e.id_bytes = bytes(8), bytes(16)
  local claimed, last, segments = read_known(bucket, e.slot)
  local new = missing(bucket, e.slot, segments, bytes(length))
  if lost > 0 then return claim_again(e, claimed, last, segments, new) end
  local c = common()
  if not c.is_known then return {'unknown_client'} end
  if last == e.id_bytes and not is_silent then
    local state = state_of(id) or 'ended'
    if state == 'waiting' then return {'mine', claimed, held()} end
    return {'ended', state, held()}
  end
  if not is_silent and c.url and new ~= '' then
    -- The event arrives again, after some of its segments were forgotten: at random, or after their time, if an operator
    -- had it sent again, which keeps its record for longer.
    local before = (#segments >= PACKED_BYTES or q.keep > 0) and state_of(id)
    if before then return {'ended', before, held()} end
    return write_claim(e, claimed + 1, segments, new)
  end
  local reason = is_silent and 'silent' or not c.url and 'not_registered' or 'no_new_segments'
  if new ~= '' then write_known(bucket, e.slot, claimed, last, segments .. new) end
  -- A client without a URL may ask for updates.
  if new ~= '' and not is_silent then tell(id, asset) end
  decide(asset, event, reason)
  return {'none', reason}
end

-- All are claimed before any is taken, so that only the newer of two events of one asset is sent.
local answers, has_taken = {}, false
local done, failure = pcall(function()
  local flights = redis.call('HLEN', base .. 'flight')
  is_empty.flight, is_empty.waiting = flights == 0, redis.call('HLEN', base .. 'owed') == 0
  for i, e in ipairs(q.events) do
    answers[i] = claim_event(e)
    keep_known(e[1], e.slot, q.keep)
  end
  if not q.take then return end
  common().in_flight = flights + redis.call('HLEN', base .. 'resends')
  for i, e in ipairs(q.events) do
    local answer = answers[i]
    if answer[1] == 'claimed' or answer[1] == 'mine' then
      answer[4] = take_attempt(e[4], e[3], 'first', answer[2], e[1], e.slot)
      has_taken = has_taken or answer[4][1] == 'taken'
    end
  end
end)
-- This runs also after a failure above: an owed asset without a due time would wait for ever.
write_waiting()
if not done then error(failure) end
if has_listed then trim_list() end
return {common().url or '', has_taken and signing_secrets() or {}, needs_wake, answers}
