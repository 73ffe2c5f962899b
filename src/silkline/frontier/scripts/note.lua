#!lua flags=allow-oom
-- Note how many requests of the crawl wait in a store outside Redis, and read what all such stores hold.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    store ("" only reads), requests
--
-- Returns pairs of store and requests, of those that hold any.
local crawl, store, requests = KEYS[1], ARGV[1], tonumber(ARGV[2])
local PREFIX = "overflow:"
if store ~= "" and requests == 0 then
  redis.call("HDEL", crawl, PREFIX .. store)
elseif store ~= "" then
  redis.call("HSET", crawl, PREFIX .. store, requests)
end
local reply, all = {}, redis.call("HGETALL", crawl)
for i = 1, #all, 2 do
  if string.sub(all[i], 1, #PREFIX) == PREFIX then
    reply[#reply + 1] = string.sub(all[i], #PREFIX + 1)
    reply[#reply + 1] = all[i + 1]
  end
end
return reply
