#!lua flags=no-writes
-- List who works on the crawl, and who fell silent in the last hour; those heard of last come first.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, most
--
-- Returns {now in ms, then of each worker: its name, ms until which it is taken for alive, and when it joined in ms, when it
-- spoke last in ms, and its info, separated by spaces}.
local crawl, clock, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
--- @include "clock"
--- @include "roster"
if redis.call("EXISTS", crawl) == 0 then return redis.error_reply("NOCRAWL no such crawl is stored here") end
local reply = { whole(now) }
local names = redis.call("ZREVRANGE", workers_key, 0, most - 1, "WITHSCORES")
for i = 1, #names, 2 do
  reply[#reply + 1] = names[i]
  reply[#reply + 1] = whole(names[i + 1])
  reply[#reply + 1] = redis.call("HGET", infos_key, names[i]) or ""
end
return reply
