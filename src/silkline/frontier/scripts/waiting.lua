#!lua flags=no-writes
-- Count the messages of an inbox that nobody has seen through.
--
-- KEYS[1] inbox  -  LIST, SET or ZSET
-- ARGV    root of the keys for what is taken
--
-- Returns {how many nobody took, how many are taken}.
local inbox, root = KEYS[1], ARGV[1]
local COUNT = { list = "LLEN", set = "SCARD", zset = "ZCARD" }
local count = COUNT[redis.call("TYPE", inbox).ok]
return { count and redis.call(count, inbox) or 0, redis.call("HLEN", root .. ":messages") }
