#!lua flags=no-writes
-- Read a part of a key of another program: a list from its right end, a set with SSCAN or a sorted set with ZSCAN.
--
-- KEYS[1] source  -  LIST, SET or ZSET
-- ARGV    cursor ("0" at first), most
--
-- Returns {type, size, next cursor ("0" at the end), member, score or "", member, …}.
local source, cursor, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
local found = redis.call("TYPE", source).ok
local reply = { found, 0, "0" }

local function add(member, score)
  reply[#reply + 1] = member
  reply[#reply + 1] = score
end

if found == "list" then
  local size, start = redis.call("LLEN", source), tonumber(cursor)
  local members = redis.call("LRANGE", source, -start - most, -start - 1)
  for i = #members, 1, -1 do add(members[i], "") end
  reply[2] = size
  if start + most < size then reply[3] = string.format("%d", start + most) end
elseif found == "set" then
  local scanned = redis.call("SSCAN", source, cursor, "COUNT", most)
  for _, member in ipairs(scanned[2]) do add(member, "") end
  reply[2], reply[3] = redis.call("SCARD", source), scanned[1]
elseif found == "zset" then
  local scanned = redis.call("ZSCAN", source, cursor, "COUNT", most)
  for i = 1, #scanned[2], 2 do add(scanned[2][i], scanned[2][i + 1]) end
  reply[2], reply[3] = redis.call("ZCARD", source), scanned[1]
end
return reply
