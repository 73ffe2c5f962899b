#!lua flags=allow-oom
-- Store the heartbeat of a worker. Workers without a heartbeat for an hour are deleted, a bounded number per call.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, worker, expires_ms, info (JSON; "" keeps the stored one)
--
-- Returns the number of other live workers.
local crawl, clock, worker, expires_ms, info = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
--- @include "clock"
--- @include "workers"
--- @include "migration"
--- @include "crawl"
local refusal = refuse_migration(crawl) or refuse_missing_crawl(crawl)
if refusal then return refusal end
if redis.call("HEXISTS", crawl, SHUT) == 1 then return redis.error_reply("NOCRAWL the crawl is being removed") end
local KEEP_LOST_MS, BATCH = 3600000, 100
local lost = redis.call("ZRANGEBYSCORE", workers_key, "-inf", now - KEEP_LOST_MS, "LIMIT", 0, BATCH)
redis.call("HDEL", infos_key, "", unpack(lost)) -- also a first write as in allow_oom
redis.call("ZREM", workers_key, "", unpack(lost))
redis.call("HDEL", orders_key, "", unpack(lost))
local stored = redis.call("HGET", infos_key, worker)
local joined, old_info = string.match(stored or "", "^(%d+) %d+ (.*)$")
local record = (joined or whole(now)) .. " " .. whole(now) .. " " .. (info ~= "" and info or old_info or "{}")
redis.call("HSET", infos_key, worker, record)
redis.call("ZADD", workers_key, now + expires_ms, worker)
return others_than(worker)
