-- Compares a hash with the fields to import.

-- Answers 'new', 'same' or 'different'. only: the fields that count, all if it is nil. An empty hash is 'new', unless
-- no fields are given either.
local function compared(key, given, only)
  local stored, count = {}, 0
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    if not only or (only[all[i]] and all[i + 1] ~= '') then
      stored[all[i]] = all[i + 1]
      count = count + 1
    end
  end
  local wanted, same = 0, true
  for name, value in pairs(given) do
    wanted = wanted + 1
    if stored[name] ~= value then same = false end
  end
  if count == 0 and wanted > 0 then return 'new' end
  return (same and count == wanted) and 'same' or 'different'
end
local function write(key, given)
  for name, value in pairs(given) do redis.call('HSET', key, name, value) end
end
