#!lua flags=no-writes
-- Count the delayed requests of each host. If there are many, a random sample of them is examined.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, most (delayed requests to examine)
--
-- Returns {delayed requests, examined ones, then host and how many of the examined ones it has, …}.
local ledger_key, clock, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "entries"
local refusal = check_ledger()
if refusal then return refusal end
local delayed = redis.call("ZCARD", key.delayed)
local members = delayed > most and redis.call("ZRANDMEMBER", key.delayed, most) or redis.call("ZRANGE", key.delayed, 0, most - 1)
local counts, reply = {}, { delayed, #members }
for _, member in ipairs(members) do
  local host = host_of(string.match(member, "^%d+\n(.*)$"))
  counts[host] = (counts[host] or 0) + 1
end
for host, count in pairs(counts) do
  reply[#reply + 1] = host
  reply[#reply + 1] = count
end
return reply
