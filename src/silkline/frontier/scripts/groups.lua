#!lua flags=no-writes
-- Tell the largest groups of dead letters, as they were counted when the letters were laid down.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    by (reason or host), most, name ("" for the largest, else only this one)
--
-- Returns {how many dead letters there are, name, letters, name, letters …}, the largest first; the names do not cover all
-- letters when there are too many of them.
local root, by, most, only_name = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
--- @include "keys"
--- @include "ledger"
--- @include "listed"
local refusal = read_ledger()
if refusal then return refusal end
local reply = { redis.call("ZCARD", key.buried) }
if only_name ~= "" then
  local letters = redis.call("ZSCORE", key["dead_" .. by .. "s"], only_name) or "0"
  if by == "host" and all_are_listed() then letters = whole(select(2, listed_of(only_name, "-inf", "+inf"))) end
  return { reply[1], only_name, letters }
end
local found = redis.call("ZREVRANGE", key["dead_" .. by .. "s"], 0, most, "WITHSCORES")
for i = 1, #found, 2 do
  if found[i] ~= "" and #reply < most * 2 then
    reply[#reply + 1] = found[i]
    reply[#reply + 1] = found[i + 1]
  end
end
return reply
