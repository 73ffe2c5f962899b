#!lua flags=allow-oom
-- Store other settings of a crawl that has some.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    settings
--
-- Returns 1, or 0 when there is no such crawl.
local crawl, settings = KEYS[1], ARGV[1]
if redis.call("HEXISTS", crawl, "settings") == 0 then return 0 end
redis.call("HSET", crawl, "settings", settings)
return 1
