#!lua flags=allow-oom
-- Write a field of a crawl, if the crawl exists.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    field (such as founded or shut), value
--
-- Returns 1, or 0 if there is no such crawl.
local crawl, field, value = KEYS[1], ARGV[1], ARGV[2]
--- @include "allow_oom"
if redis.call("HEXISTS", crawl, "settings") == 0 then return 0 end
allow_oom(crawl)
redis.call("HSET", crawl, field, value)
return 1
