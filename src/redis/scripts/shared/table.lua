-- Reads arguments that have names from the one table `q`. Bytes lie one after the other in another argument.

local q = cjson.decode(ARGV[2])
local bytes_read = 0
-- Answers the next n bytes.
local function bytes(n)
  bytes_read = bytes_read + n
  return string.sub(ARGV[3], bytes_read - n + 1, bytes_read)
end
