-- Records a call of the API in its account's stream; a reading call that repeats one of the last minute is left out.
-- KEYS: the account's stream, the mark of the same reading call
-- Arguments: entry, kept (how many), kept_ms, mark_ms (how long the mark stands; '0': none)
-- Answer: 1, or 0 if it was left out
-- Repeat: records the call once more, unless it only reads

local entry, kept, kept_ms, mark_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if mark_ms ~= '0' and not redis.call('SET', KEYS[2], '1', 'NX', 'PX', mark_ms) then return 0 end
redis.call('XADD', KEYS[1], 'MAXLEN', '~', kept, '*', 'call', entry)
redis.call('PEXPIRE', KEYS[1], kept_ms)
return 1
