#!lua flags=allow-oom
-- Order a worker to be quiet (claim nothing more), to stop (finish the pages in progress and leave) or to work; or read the order.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, worker, order (quiet, stop or work; "" only reads)
--
-- Returns the current order, or "unknown" if there is no such worker.
local crawl, clock, worker, order = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "clock"
--- @include "workers"
--- @include "migration"
--- @include "crawl"
local refusal = refuse_migration(crawl) or refuse_missing_crawl(crawl)
if refusal then return refusal end
if not redis.call("ZSCORE", workers_key, worker) then return "unknown" end
if order == "work" then
  redis.call("HDEL", orders_key, worker)
elseif order ~= "" then
  redis.call("HDEL", orders_key, worker) -- first: it frees memory, see allow_oom
  redis.call("HSET", orders_key, worker, order)
end
return redis.call("HGET", orders_key, worker) or "work"
