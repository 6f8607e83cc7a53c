-- Claims events: decides once for each whether it makes a notification, and by which notification its asset is owed.

-- Keeps the last decision about an asset that made no notification for 14 days.
local function decide(asset, event, reason)
  redis.call('SET', base .. 'decision:' .. asset,
    cjson.encode({event_id = event, at = now, decision = reason}), 'EX', const.record_kept_seconds)
end
local function stopped()
  local h = health()
  return h.is_paused and 'paused' or h.state == 'suspended' and 'suspended' or nil
end
-- True if the events of this call are of one lane, and each of another asset, which is not in flight. Then the order in which they
-- arrive is the order in which they are taken.
local are_apart
local function look_whether_apart(events)
  local assets, seen = {}, {}
  for _, e in ipairs(events) do
    if e.lane ~= events[1].lane or seen[e.asset] then return false end
    assets[#assets + 1], seen[e.asset] = e.asset, true
  end
  if in_flight() == 0 then return true end
  for _, packed in ipairs(redis.call('HMGET', base .. 'flight', unpack(assets))) do
    if packed then return false end
  end
  return true
end
local function write_claim(e, claimed, segments, new)
  -- Nobody asks for the updates of a client of notices.
  local update, updated_at = e.update, e.accepted_at
  if not e.body then update, updated_at = add_update(e.asset, update, true) end
  local lane, supersedes = e.lane, false
  local quiet_ms = limits().quiet_ms
  if quiet_ms > 0 or not are_apart or not take_arriving(e.asset, e.id, lane, e.trace, e.body, updated_at) then
    lane, supersedes = owe(e.asset, e.id, lane, quiet_ms)
  else replace_failed(e.asset, e.id) end
  write_known(e.bucket, e.slot, claimed, e.id_bytes, segments .. new, e.forgets, update)
  local fields = {'asset', e.asset, 'event', e.event, 'accepted_at', e.accepted_at, 'updated_at', updated_at}
  if lane == 'B' then add(fields, 'priority', 'backfill') end
  if e.group then add(fields, 'group', e.group) end
  if e.trace then add(fields, 'trace', e.trace) end
  if e.body then add(fields, 'body', e.body) end
  redis.call('HSET', record(e.id), unpack(fields))
  list(e.id, e.accepted_at)
  return {kind = 'claimed', claim = claimed, again = false, supersedes = supersedes, stopped = stopped(), renewed = e.renewed}
end
local function ended_before(e, state) return {kind = 'ended', state = state, stopped = stopped(), renewed = e.renewed} end
local function claimed_before(e, claimed, state)
  if state ~= 'waiting' then return ended_before(e, state) end
  return {kind = 'claimed', claim = claimed, again = true, supersedes = false, stopped = stopped(), renewed = e.renewed}
end
local function claim_again(e, claimed, last, segments, new)
  local state = state_of(e.id)
  if state or last == e.id_bytes then return claimed_before(e, claimed, state) end
  local function end_unclaimed(as, by, reason)
    local fields = {'asset', e.asset, 'event', e.event, 'accepted_at', e.accepted_at}
    if e.body then add(fields, 'body', e.body) end
    close(e.id, fields, as, by, reason)
  end
  if limits().is_deleted then
    -- The deletion cancels owed notifications; an unclaimed event ends here, in no list.
    end_unclaimed('cancelled', nil, 'client_deleted')
    redis.call('HSET', record(e.id), 'unlisted', 1)
    return {kind = 'ended', state = 'cancelled'}
  end
  if new ~= '' or claimed <= e.looked_up then return write_claim(e, claimed + 1, segments, new) end
  end_unclaimed('not_needed', id_text(last))
  list(e.id, e.accepted_at)
  decide(e.asset, e.event, 'not_needed')
  return {kind = 'not_needed'}
end
-- Returns whether a newer notice of the asset was claimed: the caller stalled between reading this one and claiming it.
local function is_outdated(e, last)
  local newest = id_text(last)
  local accepted_at = newest and redis.call('HGET', record(newest), 'accepted_at')
  return accepted_at and tonumber(accepted_at) > tonumber(e.accepted_at)
end
local function claim_event(e, keep_seconds)
  local claimed, last, segments, forgets, update = read_known(e.bucket, e.slot)
  e.forgets, e.update = math.max(e.forgets, forgets), update
  if e.looked_up < 0 and forgets > 0 then
    e.id_bytes = id_after(forgets, e.id_bytes)
    e.id = id_text(e.id_bytes)
    e.renewed = {notificationId = e.id, forgets = forgets}
  end
  local new = missing(e.bucket, e.slot, segments, e.fingerprints)
  -- A notice needs its last claim only: an older one is outdated, and each that came after it would be kept for good.
  if e.body then segments = '' end
  if e.looked_up >= 0 then return claim_again(e, claimed, last, segments, new) end
  if not limits().is_known then return {kind = 'unknown_client'} end
  if last == e.id_bytes and not e.is_silent then return claimed_before(e, claimed, state_of(e.id)) end
  if e.body and is_outdated(e, last) then return {kind = 'ended', state = 'superseded'} end
  if not e.is_silent and limits().url and new ~= '' then
    -- The event arrives again, after some of its segments were forgotten: at random, or after their time, if an operator had
    -- it sent again, which keeps its record for longer.
    local before = (#segments >= PACKED_BYTES or keep_seconds > 0) and state_of(e.id)
    if before then return ended_before(e, before) end
    return write_claim(e, claimed + 1, segments, new)
  end
  local reason = e.is_silent and 'silent' or not limits().url and 'not_registered' or 'no_new_segments'
  if new ~= '' then
    -- A client without a URL may ask for updates, but not one of notices.
    if not e.is_silent and not e.body then update = add_update(e.asset, update, false) end
    write_known(e.bucket, e.slot, claimed, last, segments .. new, e.forgets, update)
  end
  decide(e.asset, e.event, reason)
  return {kind = 'none', reason = reason}
end

-- Claims events of one client, and takes the oldest due for the places that are free (rule 1 of docs/architecture.md).
-- Arguments: `bounds`, `claim`, then `event` of each
-- Answer: JSON of `Claims` of src/redis/owed/claim.ts
-- Repeat: safe: an event recognises that it claimed its asset last; `turn` finds what was taken, by the nonce
entry('claim', function(_, ARGV)
  local given, i = args.claim(ARGV, read_bounds(ARGV))
  local keep_seconds, events, answers = given.keep_segments_seconds, {}, {}
  while i <= #ARGV do events[#events + 1], i = args.event(ARGV, i) end
  are_apart = look_whether_apart(events)
  for n, e in ipairs(events) do
    answers[n] = claim_event(e, keep_seconds)
    keep_known(e.bucket, e.slot, keep_seconds)
  end
  tell_updates()
  take()
  trim_list()
  return answer_taken({claims = answers})
end)
-- Notes the group of a notification whose former group began without it.
-- Arguments: id, group
entry('noteGroup', function(_, ARGV)
  if redis.call('EXISTS', record(ARGV[2])) == 1 then redis.call('HSET', record(ARGV[2]), 'group', ARGV[3]) end
end)
