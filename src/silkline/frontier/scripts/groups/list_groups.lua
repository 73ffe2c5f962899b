#!lua flags=no-writes
-- Return groups of the shard, those that expire first, or one of them.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, most, group ("": all)
--
-- Returns {group, ms of the server's clock at which it expires, closed, lenient, calls, left, failed, group …}.
local ledger_key, clock, most, group = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
local refusal = check_ledger()
if refusal then return refusal end
local names = group ~= "" and { group } or redis.call("ZRANGE", key.groups, 0, most - 1)
local reply = {}
for _, name in ipairs(names) do
  local expires = redis.call("ZSCORE", key.groups, name)
  if expires then
    local counts = redis.call("HMGET", root .. ":group:" .. name, "closed", "lenient", "calls", "left", "failed")
    reply[#reply + 1] = name
    reply[#reply + 1] = whole(tonumber(expires) - ahead)
    for i = 1, 5 do reply[#reply + 1] = counts[i] or "0" end
  end
end
return reply
