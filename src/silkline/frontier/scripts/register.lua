#!lua flags=allow-oom
-- Note that a crawl exists, and tell the names of all, up to ten thousand.
--
-- KEYS[1] crawls  SET  names of all crawls on this server
-- ARGV    name ("" only asks)
--
-- Returns the names.
local crawls, name = KEYS[1], ARGV[1]
if name ~= "" and redis.call("SISMEMBER", crawls, name) == 0 then redis.call("SADD", crawls, name) end
return redis.call("SRANDMEMBER", crawls, 10000)
