#!lua flags=allow-oom
-- Note how many requests of the crawl wait in a store outside Redis, and read what all such stores hold.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    store ("" only reads), version of the store (an older one than noted changes nothing), requests
--
-- Returns pairs of store and requests, of those that hold any.
local crawl, store, version, requests = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local PREFIX = "overflow:"

local function read_note(text)
  local noted_version, noted = string.match(text or "0 0", "^(%d+) (%d+)$")
  return tonumber(noted_version), noted
end

if store ~= "" and version > read_note(redis.call("HGET", crawl, PREFIX .. store)) then
  redis.call("HDEL", crawl, "") -- a first write that frees memory lets old servers go on when memory is short
  redis.call("HSET", crawl, PREFIX .. store, ARGV[2] .. " " .. requests)
end
local reply, told, cursor = {}, {}, "0"
repeat
  local page = redis.call("HSCAN", crawl, cursor, "MATCH", PREFIX .. "*", "COUNT", 1000)
  cursor = page[1]
  for i = 1, #page[2], 2 do
    local name, _, noted = page[2][i], read_note(page[2][i + 1])
    if noted ~= "0" and not told[name] then
      told[name] = true
      reply[#reply + 1] = string.sub(name, #PREFIX + 1)
      reply[#reply + 1] = noted
    end
  end
until cursor == "0"
return reply
