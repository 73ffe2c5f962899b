#!lua flags=no-writes
-- Return the largest groups of dead letters, from counts that are updated whenever a letter is stored or removed.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    by (reason or host), most, name ("" for the largest groups, else only this one)
--
-- Returns {number of dead letters, name, letters, name, letters …}, the largest group first. If there are too many names, the groups
-- do not include all letters.
local ledger_key, by, most, only_name = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
--- @include "keys"
--- @include "ledger"
--- @include "dead_by_host"
local refusal = check_ledger()
if refusal then return refusal end
local reply = { redis.call("ZCARD", key.buried) }
if only_name ~= "" then
  local letters = redis.call("ZSCORE", key["dead_" .. by .. "s"], only_name) or "0"
  if by == "host" and index_is_complete() then letters = whole(select(2, count_of_host(only_name, "-inf", "+inf"))) end
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
