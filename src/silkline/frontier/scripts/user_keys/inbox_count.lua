#!lua flags=no-writes
-- Count the messages of an inbox that are not acknowledged.
--
-- KEYS[1] inbox  -  LIST, SET, ZSET or STREAM
-- ARGV    root of the keys for the taken messages
--
-- Returns {messages that are not taken, messages that are taken}.
local inbox, root = KEYS[1], ARGV[1]
--- @include "migration"
local refusal = refuse_migration(root)
if refusal then return refusal end
local COUNT = { list = "LLEN", set = "SCARD", zset = "ZCARD", stream = "XLEN" }
local count = COUNT[redis.call("TYPE", inbox).ok]
return { count and redis.call(count, inbox) or 0, redis.call("HLEN", root .. ":messages") }
