#!lua flags=allow-oom
-- Replace the settings of a crawl if they are still the ones that the caller has read.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    known, settings
--
-- Returns the settings that are stored now, or nil if there is no such crawl.
local crawl, known, settings = KEYS[1], ARGV[1], ARGV[2]
--- @include "allow_oom"
local stored = redis.call("HGET", crawl, "settings")
if not stored then return nil end
if stored ~= known then return stored end
allow_oom(crawl)
redis.call("HSET", crawl, "settings", settings)
return settings
