#!lua flags=allow-oom
-- Reject messages that were taken from an inbox: they are moved to a list of refused messages.
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
local refused = {}
for _, message in ipairs(redis.call("HMGET", messages_key, unpack(ids))) do
  if message then refused[#refused + 1] = message end
end
redis.call("ZREM", taken_key, unpack(ids))
redis.call("HDEL", messages_key, unpack(ids))
if #refused > 0 then redis.call("RPUSH", root .. ":refused", unpack(refused)) end
return #refused
