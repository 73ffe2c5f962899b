#!lua flags=allow-oom
-- Forget messages that were taken from an inbox: they have been seen through.
--
-- KEYS[1] root  -  prefix of the keys for what is taken from one inbox
-- ARGV    ids…
--
-- Returns how many of them were still kept.
local root, ids = KEYS[1], ARGV
local taken_key, messages_key = root .. ":taken", root .. ":messages"
redis.call("ZREM", taken_key, unpack(ids))
return redis.call("HDEL", messages_key, unpack(ids))
