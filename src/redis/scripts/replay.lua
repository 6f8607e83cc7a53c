-- Replays what was delivered in a span of time: a position over the feed, which catch-up moves on (src/redis/notifications/replay.ts).

-- Returns the notification by which an asset is owed again, and its record's fields if that is gone: the newest one, if it was delivered
-- in that time; and whether it is left out, because it was owed again since `leaves`. Without a record it counts as delivered soon after its
-- event, if that is the newest: later ones without a notification say nothing of it.
local function delivered_within(asset, bucket, slot, since, till, leaves)
  local _, last, _, _, update = read_known(bucket, slot)
  local id = id_text(last)
  if not id or owed_by(asset) then return nil end
  local state, ended_at, exists, again = unpack(redis.call('HMGET', record(id), 'state', 'ended_at', 'accepted_at', 'again'))
  if exists then
    local is_meant = state == 'delivered' and tonumber(ended_at) >= since and tonumber(ended_at) <= till
    return is_meant and id or nil, nil, leaves and again and tonumber(again) >= leaves
  end
  local at, is_notified = struct.unpack('>I7B', update)
  at = math.floor(at / 1000)
  return (is_notified == 0 or at <= till) and not failed_of(asset) and id or nil, {'asset', asset, 'accepted_at', at, 'updated_at', at}
end
-- Begins a replay, or finds the same one: while it runs, and for a day after.
-- Arguments: since, until ('': the present), the position after which it begins, since when what was owed again is left out ('': nothing is)
-- Answer: {'begun', 'same', or 'another' that runs; its since and until}
-- Repeat: safe: it finds the same one
entry('beginReplay', function(_, ARGV)
  local same = base .. 'replayed:' .. ARGV[2] .. ':' .. ARGV[3]
  local till = redis.call('GET', same)
  if till then return {'same', tonumber(ARGV[2]), tonumber(till)} end
  if health().replay_end > 0 then
    return {'another', number('replay_since'), number('replay_until')}
  end
  till = ARGV[3] ~= '' and tonumber(ARGV[3]) or now
  -- What was delivered before `till` may have a later place: by a newer event without a notification, or by a clock that was ahead.
  local last = math.max(feed_end(), now * 1000)
  redis.call('SET', same, till)
  change('HSET', E, 'replay_since', ARGV[2], 'replay_until', till, 'replay_at', ARGV[4], 'replay_end', string.format('%.0f', last),
    'replay_count', 0, 'replay_same', same, 'replay_leaves', ARGV[5])
  change('HDEL', E, 'replay_ended_at')
  hurry()
  return {'begun', tonumber(ARGV[2]), till}
end)
-- Stops a replay that runs: what it owes already stays owed.
-- Arguments: since, until ('': any)
-- Answer: 1 if it ran, else 0
entry('stopReplay', function(_, ARGV)
  local runs = health().replay_end > 0 and field('replay_since') == ARGV[2]
  if not runs or ARGV[3] ~= '' and field('replay_until') ~= ARGV[3] then return 0 end
  end_replay(true)
  return 1
end, {'allow-oom'})
-- Reads a replay that runs.
-- Answer: {how many assets are due now; its position, its end, its since, until and leaves}, or nil if none runs
entry('readReplay', function()
  local due = 0
  if health().replay_end == 0 then return false end
  for _, lane in pairs(LANES) do due = due + redis.call('ZCOUNT', base .. lane, '-inf', now) end
  return {due, unpack(redis.call('HMGET', E, 'replay_at', 'replay_end', 'replay_since', 'replay_until', 'replay_leaves'))}
end, {'no-writes'})
-- Counts assets of the feed that a replay owes again, or owes them as backfill and moves its position.
-- Arguments: since, until, since when what was owed again is left out ('': nothing is), the position from which the replay moves ('': only
--   counts), the position to which it moves, '1' if that is the end; then of each: asset, its bucket, its field in it (8 bytes)
-- Answer: {how many are owed again (or would be), how many are left out}; {-1, 0} if the replay is somewhere else by now
-- Repeat: safe: the position has moved
entry('replaySome', function(_, ARGV)
  local since, till, leaves, from, chosen, left = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], 0, 0
  if from ~= '' and (field('replay_at') ~= from or health().replay_end == 0) then return {-1, 0} end
  for i = 8, #ARGV, 3 do
    local asset = ARGV[i]
    local id, fields, is_left = delivered_within(asset, ARGV[i + 1], ARGV[i + 2], since, till, leaves)
    if id and is_left then
      left, id = left + 1, nil
    elseif id then chosen = chosen + 1 end
    if id and from ~= '' then
      set_right()
      owe(asset, id, 'B')
      if fields then
        redis.call('HSET', record(id), unpack(fields))
        list(id, fields[4])
      end
      redis.call('HSET', record(id), 'priority', 'backfill')
      reopen(id)
    end
  end
  if from == '' then return {chosen, left} end
  change('HSET', E, 'replay_at', ARGV[6])
  change('HINCRBY', E, 'replay_count', chosen)
  if chosen > 0 then drain() end
  if ARGV[7] == '1' then
    -- Meanwhile an event without a notification may have moved a place to the end.
    local newest = redis.call('ZREVRANGE', base .. 'feed', 0, 0, 'WITHSCORES')[2]
    if tonumber(newest or 0) > tonumber(ARGV[6]) then change('HSET', E, 'replay_end', newest) else end_replay() end
  end
  trim_list()
  return {chosen, left}
end)
