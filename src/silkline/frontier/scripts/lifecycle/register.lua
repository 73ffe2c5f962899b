#!lua flags=allow-oom
-- Add a crawl to the set of all crawls, and return up to ten thousand names. Only a new name is written, so that an existing crawl
-- can be opened without a write.
--
-- KEYS[1] crawls  SET  names of all crawls on this server
-- ARGV    name ("" only reads)
--
-- Returns the names.
local crawls, name = KEYS[1], ARGV[1]
if name ~= "" and redis.call("SISMEMBER", crawls, name) == 0 then redis.call("SADD", crawls, name) end
return redis.call("SRANDMEMBER", crawls, 10000)
