#!lua flags=allow-oom
-- Store the settings of a crawl unless it has some, and read them. If two clients create a crawl, both get the settings that were
-- stored first.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    settings ("" only reads)
--
-- Returns {the stored settings, 1 if its shards were created, 1 if it is being removed}; each nil if not.
local crawl, settings = KEYS[1], ARGV[1]
if settings ~= "" then redis.call("HSETNX", crawl, "settings", settings) end
return redis.call("HMGET", crawl, "settings", "founded", "shut")
