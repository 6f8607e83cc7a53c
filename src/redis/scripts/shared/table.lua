-- Reads named arguments from the one table `q`. Bytes follow each other in another argument.

local q = cjson.decode(ARGV[2])
local bytes_read = 0
-- Returns the next n bytes.
local function bytes(n)
  bytes_read = bytes_read + n
  return string.sub(ARGV[3], bytes_read - n + 1, bytes_read)
end
