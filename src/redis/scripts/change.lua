-- Changes that operators and publishers make at a client's registration, endpoint and notifications. The caller sets the alarm.

local function own(account)
  if account ~= '' then redis.call('HSET', base .. 'client', 'account_id', account, 'name', 'Notices') end
end
-- Stores a client's URL, unanswered, if it has none, and a signing secret, if it has none; takes over an equal URL that no call can be
-- answering any more.
-- Arguments: url, nonce (identifies this call), take_over_after (age, ms, from which an unanswered one is taken over), sealed,
--   '1' if the caller may set request headers, the account that a client of notices belongs to from now on ('': as before)
-- Answer: 'stored', 'taken' or 'pending'
-- Repeat: safe: the nonce finds the URL that it has stored
entry('register', function(_, ARGV)
  local wanted, wanted_nonce, take_over_after = ARGV[2], ARGV[3], tonumber(ARGV[4])
  local R = base .. 'registration'
  add_secret(ARGV[5])
  local url, answered, since, stored_by = unpack(redis.call('HMGET', R, 'url', 'answered', 'pending_since', 'nonce'))
  if url and stored_by ~= wanted_nonce then
    if answered == '1' or url ~= wanted then return 'taken' end
    if math.abs(now - tonumber(since or '0')) < take_over_after then return 'pending' end
    own(ARGV[7] or '')
    redis.call('HSET', R, 'nonce', wanted_nonce, 'pending_since', now)
    turn_headers(nil, wanted, ARGV[6] == '1')
  elseif not url then
    own(ARGV[7] or '')
    change('HSET', R, 'url', wanted, 'nonce', wanted_nonce, 'answered', '0', 'pending_since', now, 'registered_at', now)
    turn_headers(nil, wanted, ARGV[6] == '1')
    new_url('not_registered', 'registered', 'publisher')
  end
  return 'stored'
end)
-- Marks a client's URL as answered, so that no other call takes it over.
-- Arguments: nonce (of the call that stored it)
entry('markAnswered', function(_, ARGV)
  local R = base .. 'registration'
  if redis.call('HGET', R, 'nonce') ~= ARGV[2] then return end
  redis.call('HSET', R, 'answered', '1')
  redis.call('HDEL', R, 'pending_since')
end)
-- Tells a client's account that an operator has changed its URL.
local function told(did)
  if not limits().is_deleted then owe_notice('url_notice', 'registration.changed', 'an operator ' .. did, now, 0) end
end
-- Replaces a client's URL. An operator may put a former one back where there is none.
-- Arguments: url, nonce (new: an unanswered call of the API can no longer mark it), by (operator or publisher); or beside these: the present
--   URL as the operator saw it ('': none), the field that keeps it and it, sealed ('': none), the field of the one that is put back ('': none),
--   the reference of the request that is accepted ('': none), the account that a client of notices belongs to from now on ('': as before)
-- Answer: {the previous URL, names of the request headers left behind with it, of those that are back with the new one}, or nil if there
--   is none, or another
entry('changeRegistration', function(_, ARGV)
  local R, by, restored = base .. 'registration', ARGV[4], ARGV[8] or ''
  local previous, from = redis.call('HGET', R, 'url') or '', seen()
  if previous ~= (ARGV[5] or previous) or previous == '' and restored == '' then return false end
  local accepted = ARGV[9] or ''
  if accepted ~= '' and not is_asked(accepted) then return false end
  own(ARGV[10] or '')
  change('HSET', R, 'url', ARGV[2], 'nonce', ARGV[3], 'answered', '1', 'registered_at', now, 'by', by)
  redis.call('HDEL', R, 'pending_since')
  local left, back = turn_headers(previous ~= '' and previous or nil, ARGV[2])
  new_url(from, restored == '' and 'the url was changed' or 'a former url was put back', by)
  if by == 'operator' then
    told(restored ~= '' and 'has put a former URL back' or accepted ~= '' and 'has accepted the URL that was asked for' or 'has changed the URL')
  end
  answer_asked(accepted ~= '' and 'accepted' or 'void')
  if ARGV[5] then
    redis.call('HDEL', secrets_key(), restored)
    keep_former(ARGV[6], ARGV[7])
  end
  return {previous, left, back}
end)
-- Removes a client's URL. Returns it, and the names of the request headers left behind with it; false if there was none.
local function remove_url(by)
  local R = base .. 'registration'
  local url, from = redis.call('HGET', R, 'url'), seen()
  if not url then return false end
  change('DEL', R)
  answer_asked('void')
  local left = turn_headers(url)
  new_url(from, 'reset', by)
  return url, left
end
-- Removes a client's URL; owed assets stay owed.
-- Arguments: none, or the present URL as the operator saw it, the field that keeps it and it, sealed ('': none)
-- Answer: {the URL, how many assets are owed, names of the request headers left behind}, or nil if there was none, or another
entry('resetRegistration', function(_, ARGV)
  if ARGV[2] and redis.call('HGET', base .. 'registration', 'url') ~= ARGV[2] then return false end
  local url, left = remove_url('operator')
  if not url then return false end
  told('has removed the URL')
  if ARGV[2] then keep_former(ARGV[3], ARGV[4]) end
  return {url, owed_count(), left}
end, {'allow-oom'})
-- Makes a suspended or failing endpoint due for a probe now.
-- Arguments: by ('operator' or 'publisher')
-- Answer: 1, or 0 if it is active
entry('resumeEndpoint', function(_, ARGV)
  local was, from = health().state, seen()
  change('HDEL', E, 'not_before')
  hurry()
  if was == 'active' then return 0 end
  if was == 'suspended' then
    -- The past failures no longer count: a failing probe does not suspend it again immediately.
    change('HSET', E, 'failures', 0)
    change('HSETNX', E, 'fails_since', field('first_failure_clock') or 0)
    change('HDEL', E, 'first_failure_at', 'first_failure_clock')
    enter('failing')
  end
  change('HSET', E, 'probe_step', 1, 'probe_at', now)
  note_change(from, 'resumed', ARGV[2])
  return 1
end)
-- Sets or ends a pause or a hold of all deliveries of a client.
-- Arguments: name ('paused' or 'held'), wanted ('1', '0', or 'paused' if the account is), why
-- Answer: 1 if that changed anything, else 0
entry('stopEndpoint', function(_, ARGV)
  local name, wanted = ARGV[2], ARGV[3]
  local before, from = field(name) or '0', seen()
  if wanted ~= '0' then change('HSET', E, name, wanted)
  elseif before ~= '0' then
    change('HDEL', E, name)
    change('HSET', E, 'recovered_at', now)
  end
  sync_clock()
  note_change(from, ARGV[4], 'operator')
  return before == wanted and 0 or 1
end, {'allow-oom'})
-- Sets the alarm of catch-up, if something is owed.
-- Arguments: in_ms, stuck_ms (a catch-up that was woken and has not planned for so long is stuck)
-- Answer: 'covered'; 'woken' if catch-up must be woken; 'replaced' if it must be replaced, because it is stuck
-- Repeat: a second call answers 'covered'; the sweep wakes a catch-up that was not woken
entry('setAlarm', function(_, ARGV)
  if owed_count() > 0 or health().replay_end > 0 then alarm(now + tonumber(ARGV[2])) end
  local h = health()
  if needs_wake == 0 then return 'covered' end
  if now - h.woken_at <= tonumber(ARGV[3]) then return 'woken' end
  change('HSET', E, 'woken_at', now)
  return 'replaced'
end, {'allow-oom'})

-- Sends a notification again: a waiting one is due now, before all others, and an ended one is owed again. If another of its asset is
-- owed or has failed, that one is due instead: a receiver may have had this one, and nothing would tell it of the other. A failing
-- endpoint is probed with it.
-- Arguments: id
-- Answer: id of the notification that is due now, '' if there is neither a record nor a failed asset
entry('redeliver', function(_, ARGV)
  local id = ARGV[2]
  local kept = failed_by(id)
  local asset = kept and kept.asset or redis.call('HGET', record(id), 'asset')
  if not asset then return '' end
  local current, f, w = owed_by(asset)
  if not current then
    local failed = failed_of(asset)
    if failed then
      recover(asset, failed)
      trim_list()
    else
      set_right()
      owe(asset, id, 'L')
      reopen(id)
    end
    current, f, w = owed_by(asset)
  end
  if w then
    hurry()
    wait(asset, current, w.since, 'L', math.min(first_due('L', '-inf') or now, now) - 1)
    if w.lane == 'B' then redis.call('ZREM', base .. LANES.B, asset) end
    if health().state == 'failing' then change('HSET', E, 'probe_at', now) end
  elseif f.quiet then
    f.quiet = nil
    write_flight(asset, f)
  end
  return current
end)
-- Ends the notification by which an asset is owed. An attempt under way settles nothing any more.
local function cancel(asset, id, f, reason)
  finish(id, 'cancelled', nil, reason, first_time(f and f.since or since_of(asset)))
  owe_no_more(asset, f)
end
-- Cancels a waiting notification, for an operator.
-- Arguments: id
-- Answer: 1, or 0 if it does not wait (any more)
entry('cancel', function(_, ARGV)
  local id = ARGV[2]
  local asset = redis.call('HGET', record(id), 'asset')
  if not asset then return 0 end
  local current, f = owed_by(asset)
  if current ~= id then return 0 end
  cancel(asset, id, f)
  trim_list()
  return 1
end, {'allow-oom'})
-- Forgets an asset: its known segments, its last decision, and the notification by which it is owed or that has failed, which is
-- cancelled. Its next notifications have ids of their own (`id_after`). The claim's number stays: workflows of earlier events would take
-- these for lost (`look`), and claim them again.
-- Arguments: asset, its bucket, its field in it (8 bytes), for how long (s) segments are known (0: for good)
-- Answer: {how many segments were known, id of the notification that was cancelled ('': none)}
entry('forgetAsset', function(_, ARGV)
  local asset, bucket, slot = ARGV[2], ARGV[3], ARGV[4]
  local claimed, _, segments, forgets = read_known(bucket, slot)
  local beside = beside_of(bucket, slot)
  local known = #segments / 6 + redis.call('SCARD', beside)
  local id, f = owed_by(asset)
  local failed = failed_of(asset)
  local keep_seconds = tonumber(ARGV[5])
  -- Where known segments end by age, a record of before may have outlived them.
  if known > 0 or id or failed or claimed == 0 and keep_seconds > 0 then
    -- Never 0, and first a number of the time: where known segments have ended by age, a former count has ended with them.
    forgets = forgets > 0 and forgets or math.floor(now / 60000)
    write_known(bucket, slot, claimed + 1, '', '', forgets % 65535 + 1, NO_UPDATE)
    keep_known(bucket, slot, keep_seconds)
  end
  drop_update(asset)
  redis.call('UNLINK', beside, base .. 'decision:' .. asset)
  redis.call('SREM', base .. 'known-beside', bucket .. ':' .. slot)
  if id then cancel(asset, id, f, 'asset_forgotten')
  elseif failed then
    finish(failed.id, 'cancelled', nil, 'asset_forgotten', failed.since)
    drop_failed(asset, failed.id)
  end
  trim_list()
  return {known, id or failed and failed.id or ''}
end, {'allow-oom'})
-- Cancels some of the notifications that a deleted client, or one of notices, is still owed. An attempt under way settles nothing any
-- more. The step that leaves none removes the URL and the secrets.
-- Arguments: count, by ('operator' or 'publisher'), the URL that is removed ('': any)
-- Answer: {how many were cancelled, 1 if there are more}; {0, -1} if it has another URL
entry('cancelOwed', function(_, ARGV)
  local url = redis.call('HGET', base .. 'registration', 'url')
  if url and ARGV[4] ~= '' and url ~= ARGV[4] then return {0, -1} end
  local cancelled, assets = 0, redis.call('HKEYS', base .. 'flight')
  local why = limits().is_deleted and 'client_deleted' or 'url_removed'
  for _, asset in ipairs(redis.call('HRANDFIELD', base .. 'owed', ARGV[2])) do assets[#assets + 1] = asset end
  for _, asset in ipairs(assets) do
    local id, f = owed_by(asset)
    if id then
      cancel(asset, id, f, why)
      cancelled = cancelled + 1
    end
    if f and f.lease <= now then end_flight(asset) end
  end
  local has_more = redis.call('EXISTS', base .. 'owed')
  if has_more == 0 then
    remove_url(ARGV[3])
    redis.call('DEL', secrets_key())
    if limits().is_deleted and health().replay_end > 0 then end_replay(true) end
  end
  trim_list()
  return {cancelled, has_more}
end, {'allow-oom'})
-- Removes the sets of some assets' further segments, of a deleted client.
-- Arguments: count
-- Answer: {how many were removed, 1 if there are more}
entry('unlinkBeside', function(_, ARGV)
  local some = redis.call('SPOP', base .. 'known-beside', ARGV[2])
  for _, name in ipairs(some) do redis.call('UNLINK', base .. 'known:' .. name) end
  return {#some, redis.call('EXISTS', base .. 'known-beside')}
end, {'allow-oom'})
