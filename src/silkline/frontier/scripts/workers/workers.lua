#!lua flags=no-writes
-- List the workers of the crawl: those that are alive, and those that were lost in the last hour. The latest heartbeat comes first.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, most
--
-- Returns {now in ms, then for each worker: its name; ms until which it counts as alive; when it joined in ms, its last heartbeat in
-- ms and its info, separated by spaces; its order (work, quiet or stop)}.
local crawl, clock, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
--- @include "clock"
--- @include "workers"
--- @include "migration"
--- @include "crawl"
local refusal = refuse_migration(crawl) or refuse_missing_crawl(crawl)
if refusal then return refusal end
local reply = { whole(now) }
local names = redis.call("ZREVRANGE", workers_key, 0, most - 1, "WITHSCORES")
for i = 1, #names, 2 do
  reply[#reply + 1] = names[i]
  reply[#reply + 1] = whole(names[i + 1])
  reply[#reply + 1] = redis.call("HGET", infos_key, names[i]) or ""
  reply[#reply + 1] = redis.call("HGET", orders_key, names[i]) or "work"
end
return reply
