#!lua
-- Add to the status counts of hosts, and delete old ones if more than `most` hosts have counts.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, slot, call, most, host, counts…
--         counts are packed: responses with 2xx, 3xx, 4xx, 5xx and without a status, the last status, two bytes each; then the
--         CPU time in tenths of a millisecond, four bytes, which earlier versions do not send
--
-- Returns the number of hosts that have counts.
local ledger_key, clock, slot, call, most = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "idempotency"
--- @include "status_counts"
local ROUNDS = 3 -- a round may draw a host twice, and then deletes too few
local refusal = check_ledger()
if refusal then return refusal end
local stored = replay()
if stored then return stored end

local hosts = {}
for i = 5, #ARGV, 2 do hosts[#hosts + 1] = ARGV[i] end
local old_counts = redis.call("HMGET", key.answers, unpack(hosts))
local changes, at = {}, 5
for place, host in ipairs(hosts) do
  changes[2 * place - 1], changes[2 * place] = host, add_counts(old_counts[place], ARGV[at + 1])
  at = at + 2
end
redis.call("HSET", key.answers, unpack(changes)) -- first, so that a server that is out of memory refuses it
local count = redis.call("HLEN", key.answers)
for _ = 1, ROUNDS do
  if count <= most then break end
  delete_old_counts(math.min(count - most, #hosts))
  count = redis.call("HLEN", key.answers)
end
local reply = whole(count)
remember(reply)
return reply
