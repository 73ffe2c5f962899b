#!lua flags=allow-oom
-- Reject messages that were taken from an inbox: they are moved to a list of refused messages.
--
-- KEYS[1] root  -  prefix of the keys for the taken messages of an inbox
-- ARGV    lines: ids, one per line
--
-- Returns how many of them were still stored.
local root, lines = KEYS[1], ARGV[1]
--- @include "migration"
--- @include "inbox"
local refusal = refuse_migration(root)
if refusal then return refusal end
local ids, refused = read_ids(lines), {}
for _, message in ipairs(redis.call("HMGET", messages_key, unpack(ids))) do
  if message then refused[#refused + 1] = message end
end
forget_messages(ids)
if #refused > 0 then redis.call("RPUSH", root .. ":refused", unpack(refused)) end
return #refused
