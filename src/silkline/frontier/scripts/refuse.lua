#!lua flags=allow-oom
-- Put messages aside that were taken from an inbox and that nobody wants.
--
-- KEYS[1] root  -  prefix of the keys for what is taken from one inbox
-- ARGV    ids…
--
-- Returns how many of them were still kept.
local root, ids = KEYS[1], ARGV
local taken_key, messages_key = root .. ":taken", root .. ":messages"
local refused = {}
for _, message in ipairs(redis.call("HMGET", messages_key, unpack(ids))) do
  if message then refused[#refused + 1] = message end
end
redis.call("ZREM", taken_key, unpack(ids))
redis.call("HDEL", messages_key, unpack(ids))
if #refused > 0 then redis.call("RPUSH", root .. ":refused", unpack(refused)) end
return #refused
