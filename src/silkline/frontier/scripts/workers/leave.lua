#!lua flags=allow-oom
-- Delete a worker. The last one may mark the crawl for removal: then no worker can join it any more.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, worker, shut (1 or 0)
--
-- Returns the number of other live workers.
local crawl, clock, worker, shut = KEYS[1], ARGV[1], ARGV[2], ARGV[3] == "1"
--- @include "clock"
--- @include "workers"
--- @include "migration"
--- @include "crawl"
local refusal = refuse_migration(crawl) or refuse_missing_crawl(crawl)
if refusal then return refusal end
redis.call("HDEL", infos_key, worker)
redis.call("HDEL", orders_key, worker)
redis.call("ZREM", workers_key, worker)
local others = others_than(worker)
if shut and others == 0 then redis.call("HSET", crawl, SHUT, 1) end
return others
