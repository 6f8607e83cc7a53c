-- Reads the prefix of the client's keys, and Redis' clock in ms, to which the caller's ARGV[1] is added.

local base = KEYS[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[1])
