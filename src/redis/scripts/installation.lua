-- Keeps what concerns all clients, or all processes.

-- Writes a mark, on whose confirmation a write waits (src/redis/connection/durable.ts). A full Redis allows the mark, because it
-- allows some of the writes that wait.
-- KEYS: the mark
entry('mark', function(KEYS) return redis.call('SET', KEYS[1], '', 'EX', 60) end, {'allow-oom'})
-- Records an operator's change. A full Redis allows the record, because it allows some of the changes. Beyond the bound the operator's
-- oldest entry goes, unless it bears on security.
-- KEYS: the audit, the ids of the operator's entries that may go, the day's count of the others
-- Arguments: kept (how many may go), kept_ms, most (how many of a day may not go; '0': this one may), day_ms, the entry's fields, each
--   with its value
-- Repeat: records the change once more
entry('recordChange', function(KEYS, ARGV)
  local kept, kept_ms, most, day_ms = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
  local id = redis.call('XADD', KEYS[1], 'MINID', '~', is_sure() and now - kept_ms or 0, '*', unpack(ARGV, 6))
  local count = most > 0 and redis.call('INCR', KEYS[3])
  if count == 1 then redis.call('PEXPIRE', KEYS[3], day_ms) end
  if count and count <= most then return end
  redis.call('RPUSH', KEYS[2], id)
  redis.call('PEXPIRE', KEYS[2], string.format('%.0f', kept_ms))
  if redis.call('LLEN', KEYS[2]) > kept then redis.call('XDEL', KEYS[1], redis.call('LPOP', KEYS[2])) end
end, {'allow-oom'})
-- Lists what a change leaves to do, before the change, or takes it out once it is done: unless it was listed again meanwhile. A full Redis
-- allows it, as the change.
-- KEYS: the list
-- Arguments: member, the time by which it was listed ('': lists it), by which time it is listed (by default the present)
entry('listWork', function(KEYS, ARGV)
  if ARGV[3] == '' then redis.call('ZADD', KEYS[1], ARGV[4] or now, ARGV[2])
  elseif redis.call('ZSCORE', KEYS[1], ARGV[2]) == ARGV[3] then redis.call('ZREM', KEYS[1], ARGV[2]) end
end, {'allow-oom'})
-- Notes what all processes must have alike, or that a client is deleted. A full Redis allows the note: processes start on it.
-- KEYS: the installation, the client, or the index of clients
-- Arguments: its fields, each with its value
entry('noteFields', function(KEYS, ARGV) return redis.call('HSET', KEYS[1], unpack(ARGV, 2)) end, {'allow-oom'})
-- Announces claims of a client, or a change after which something may be sent to it, to the index of owed clients.
-- KEYS: the index of owed clients, the stopped ones
-- Arguments: client_token, '1' for a change, which concerns only a client that may be owed something
entry('announce', function(KEYS, ARGV)
  local was_stopped = redis.call('HDEL', KEYS[2], ARGV[2]) == 1
  if ARGV[3] == '1' and not was_stopped and not redis.call('ZSCORE', KEYS[1], ARGV[2]) then return 0 end
  return redis.call('ZADD', KEYS[1], now, ARGV[2])
end, {'allow-oom'})
-- Removes a client from the index, unless it was announced recently: it is owed nothing, or can be sent nothing before it is announced.
-- KEYS: the index of owed clients, the stopped ones
-- Arguments: client_token, unclaimed_ms (an announcement of that age or newer counts), how much it is owed, in how many ms the sweep looks
--   at it again
entry('setAside', function(KEYS, ARGV)
  local at, owed = redis.call('ZSCORE', KEYS[1], ARGV[2]), tonumber(ARGV[4])
  -- By a clock that has leapt ahead every announcement is old.
  if not is_sure() then return end
  if at and tonumber(at) >= now - tonumber(ARGV[3]) then return end
  redis.call('ZREM', KEYS[1], ARGV[2])
  if owed == 0 then redis.call('HDEL', KEYS[2], ARGV[2])
  else redis.call('HSET', KEYS[2], ARGV[2], string.format('%d %d', now + tonumber(ARGV[5]), owed)) end
end)
-- Notes a server's clock, and whether it has stepped back by more than a second since the last note. A replica that takes over knows the note.
-- Notes, too, that the store is older than the caller knows it by more than a minute: somebody has restored a backup.
-- KEYS: the server's witness
-- Arguments: the clock and the step of the caller's last answer; 0 and 0 before it
-- Answer: {the server's clock, its last step back: named by the clock before it, and greater than any step before (0: none), by how much
--   if this call has found it, else 0, of when an older store is if this call has found one, else 0, of when the last older store was,
--   when it was found (0: none)}
entry('witnessClock', function(KEYS, ARGV)
  local seen, last_turn = unpack(redis.call('HMGET', KEYS[1], 'seen', 'turned'))
  local back, turn = tonumber(seen or '0') - now, tonumber(last_turn or '0')
  local older = seen and turn <= tonumber(ARGV[3]) and tonumber(ARGV[2]) - tonumber(seen) > 60000
  if older then redis.call('HSET', KEYS[1], 'older_from', seen, 'older_at', now) end
  if back > 1000 then
    turn = math.max(turn + 1, tonumber(seen))
    redis.call('HSET', KEYS[1], 'turned', turn, 'back_ms', back, 'turned_at', now)
  end
  redis.call('HSET', KEYS[1], 'seen', now)
  local last = redis.call('HMGET', KEYS[1], 'older_from', 'older_at')
  return {now, turn, back > 1000 and back or 0, older and tonumber(seen) or 0, tonumber(last[1] or 0), tonumber(last[2] or 0)}
end, {'allow-oom'})
-- Counts the processes that start workflows, and notes that the caller is one of them. It removes those that were silent for too
-- long, unless the caller was silent or unknown itself: then Redis may have been away, and the others could not say anything either.
-- KEYS: the processes
-- Arguments: id (of the caller), silent_ms (after so long without a word a process has ended)
-- Answer: {how many run, 1 if the others had time to say that they run, else 0}
entry('countProcesses', function(KEYS, ARGV)
  local silent_ms = tonumber(ARGV[3])
  local said_at = redis.call('ZSCORE', KEYS[1], ARGV[2])
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], now + 1, '+inf')) do redis.call('ZADD', KEYS[1], now, id) end
  redis.call('ZADD', KEYS[1], now, ARGV[2])
  local had_time = said_at and now - tonumber(said_at) <= silent_ms
  if had_time then redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - silent_ms) end
  return {redis.call('ZCARD', KEYS[1]), had_time and 1 or 0}
end)
-- Writes a part of the sweep's counts, with the time.
-- KEYS: the counts
-- Arguments: part, JSON of the numbers
entry('noteCounts', function(KEYS, ARGV)
  return redis.call('HSET', KEYS[1], ARGV[2], string.format('{"atMs":%d,', now) .. string.sub(ARGV[3], 2))
end)
-- Reads the sweep's counts.
-- KEYS: the counts
-- Answer: {now, part and JSON in turn}
entry('readCounts', function(KEYS) return {now, redis.call('HGETALL', KEYS[1])} end, {'no-writes'})
-- Runs a reading command on each of many keys, of any clients and accounts: in a cluster on one at a time.
-- KEYS: the keys
-- Arguments: the command, its arguments after the key
-- Answer: the command's answers in turn; an error in place of one
entry('readEach', function(KEYS, ARGV)
  local answers = {}
  for i = 1, #KEYS do answers[i] = redis.pcall(ARGV[2], KEYS[i], unpack(ARGV, 3)) end
  return answers
end, {'no-writes'})
