#!lua flags=allow-oom
-- Tell that a worker no longer works on the crawl. The last one may shut the door: nobody joins from then on, and the
-- crawl is to be removed.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, worker, shut (1 or 0)
--
-- Returns how many others are at work.
local crawl, clock, worker, shut = KEYS[1], ARGV[1], ARGV[2], ARGV[3] == "1"
--- @include "clock"
--- @include "roster"
if redis.call("EXISTS", crawl) == 0 then return redis.error_reply("NOCRAWL no such crawl is stored here") end
redis.call("HDEL", infos_key, worker)
redis.call("HDEL", orders_key, worker)
redis.call("ZREM", workers_key, worker)
local others = others_than(worker)
if shut and others == 0 then redis.call("HSET", crawl, SHUT, 1) end
return others
