#!lua flags=allow-oom
-- Strike a crawl off the list of all crawls.
--
-- KEYS[1] crawls  SET  names of all crawls on this server
-- ARGV    name
--
-- Returns 1 when it was listed, else 0.
local crawls, name = KEYS[1], ARGV[1]
return redis.call("SREM", crawls, name)
