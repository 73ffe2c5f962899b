#!lua flags=no-writes
-- Tell the largest groups of dead letters, as they were counted when the letters were laid down.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    by (reason or host), most, name ("" for the largest, else only this one)
--
-- Returns {how many dead letters there are, name, letters, name, letters …}, the largest first; the names do not cover all
-- letters when there are too many of them. Of a name that is asked for, letters is "" where the counts do not tell.
local root, by, most, only_name = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
--- @include "keys"
--- @include "ledger"
local refusal = read_ledger()
if refusal then return refusal end
local reply = { redis.call("ZCARD", key.buried) }
if only_name ~= "" then
  local group_key = key["dead_" .. by .. "s"]
  local letters = redis.call("ZSCORE", group_key, only_name)
  local all_named = ledger.counted == reply[1] and not redis.call("ZSCORE", group_key, "")
  return { reply[1], only_name, letters or all_named and "0" or "" }
end
local found = redis.call("ZREVRANGE", key["dead_" .. by .. "s"], 0, most, "WITHSCORES")
for i = 1, #found, 2 do
  if found[i] ~= "" and #reply < most * 2 then
    reply[#reply + 1] = found[i]
    reply[#reply + 1] = found[i + 1]
  end
end
return reply
