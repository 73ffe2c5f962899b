#!lua flags=allow-oom
-- Store a crawl's settings unless it has some; the ones stored first hold.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    settings ("" only asks)
--
-- Returns the settings that hold now, or nil.
local crawl, settings = KEYS[1], ARGV[1]
if settings ~= "" then redis.call("HSETNX", crawl, "settings", settings) end
return redis.call("HGET", crawl, "settings")
