#!lua flags=allow-oom
-- Store how many requests of the crawl wait in an overflow store outside Redis, and read the numbers of all such stores.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    store ("" only reads), version of the store (ignored if it is not newer than the stored one), requests, refused: how many
--         requests the store has refused so far
--
-- Returns how many requests all stores have refused, then pairs of store and requests, for stores that are not empty.
local crawl, store, version, requests, refused = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
--- @include "allow_oom"
--- @include "crawl"
local refusal = refuse_missing_crawl(crawl)
if refusal then return refusal end
local PREFIX, REFUSED = "overflow:", "refused:"

local function read_field(text)
  local stored_version, stored = string.match(text or "0 0", "^(%d+) (%d+)$")
  return tonumber(stored_version), stored
end

if store ~= "" and version > read_field(redis.call("HGET", crawl, PREFIX .. store)) then
  allow_oom(crawl)
  redis.call("HSET", crawl, PREFIX .. store, ARGV[2] .. " " .. requests)
  if refused ~= "0" then redis.call("HSET", crawl, REFUSED .. store, refused) end
end

-- Calls handle once with the name and value of every field that has the prefix. HSCAN may return a field twice.
local function each_store(prefix, handle)
  local handled, cursor = {}, "0"
  repeat
    local page = redis.call("HSCAN", crawl, cursor, "MATCH", prefix .. "*", "COUNT", 1000)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      if not handled[page[2][i]] then handle(string.sub(page[2][i], #prefix + 1), page[2][i + 1]) end
      handled[page[2][i]] = true
    end
  until cursor == "0"
end

local all_refused, reply = 0, { "" }
each_store(PREFIX, function(name, text)
  local _, stored = read_field(text)
  if stored ~= "0" then
    reply[#reply + 1] = name
    reply[#reply + 1] = stored
  end
end)
each_store(REFUSED, function(_, number) all_refused = all_refused + tonumber(number) end)
reply[1] = string.format("%.0f", all_refused)
return reply
