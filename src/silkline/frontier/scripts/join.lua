#!lua flags=allow-oom
-- Tell that a worker works on the crawl, or still does. One that was silent for an hour is struck off, some per call.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, worker, expires_ms, info (JSON; "" keeps what it told before)
--
-- Returns how many others are at work.
local crawl, clock, worker, expires_ms, info = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
--- @include "clock"
--- @include "roster"
if redis.call("EXISTS", crawl) == 0 then return redis.error_reply("NOCRAWL no such crawl is stored here") end
if redis.call("HEXISTS", crawl, SHUT) == 1 then return redis.error_reply("NOCRAWL the crawl is being removed") end
local KEEP_LOST_MS, BATCH = 3600000, 100
local lost = redis.call("ZRANGEBYSCORE", workers_key, "-inf", now - KEEP_LOST_MS, "LIMIT", 0, BATCH)
redis.call("HDEL", infos_key, "", unpack(lost)) -- also a first write that lets old servers go on when memory is short
redis.call("ZREM", workers_key, "", unpack(lost))
redis.call("HDEL", orders_key, "", unpack(lost))
local known = redis.call("HGET", infos_key, worker)
local joined, told = string.match(known or "", "^(%d+) %d+ (.*)$")
local record = (joined or whole(now)) .. " " .. whole(now) .. " " .. (info ~= "" and info or told or "{}")
redis.call("HSET", infos_key, worker, record)
redis.call("ZADD", workers_key, now + expires_ms, worker)
return others_than(worker)
