#!lua flags=allow-oom
-- Acknowledge messages that were taken from an inbox: they are deleted.
--
-- KEYS[1] root  -  prefix of the keys for the taken messages of an inbox
-- ARGV    ids…
--
-- Returns how many of them were still stored.
local root, ids = KEYS[1], ARGV
--- @include "migration"
local refusal = refuse_migration(root)
if refusal then return refusal end
local taken_key, messages_key = root .. ":taken", root .. ":messages"
redis.call("ZREM", taken_key, unpack(ids))
return redis.call("HDEL", messages_key, unpack(ids))
