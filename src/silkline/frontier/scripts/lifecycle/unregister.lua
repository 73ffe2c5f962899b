#!lua flags=allow-oom
-- Remove a crawl from the set of all crawls.
--
-- KEYS[1] crawls  SET  names of all crawls on this server
-- ARGV    name
--
-- Returns 1 if it was in the set, else 0.
local crawls, name = KEYS[1], ARGV[1]
return redis.call("SREM", crawls, name)
