#!lua flags=allow-oom
-- Order a worker to be quiet (claim nothing more), to stop (end what is under way and leave) or to work; or read the order.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, worker, order (quiet, stop or work; "" only reads)
--
-- Returns the order that stands now, or "unknown" for a worker that nobody has heard of.
local crawl, clock, worker, order = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "clock"
--- @include "roster"
if redis.call("EXISTS", crawl) == 0 then return redis.error_reply("NOCRAWL no such crawl is stored here") end
if not redis.call("ZSCORE", workers_key, worker) then return "unknown" end
if order == "work" then
  redis.call("HDEL", orders_key, worker)
elseif order ~= "" then
  redis.call("HDEL", orders_key, worker) -- a first write that frees memory lets old servers go on when memory is short
  redis.call("HSET", orders_key, worker, order)
end
return redis.call("HGET", orders_key, worker) or "work"
