#!lua flags=no-writes
-- Return the result of a completed request, if there is one that has not expired.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, id of the result
--
-- Returns {ms at which the request was completed, the value}, or false.
local ledger_key, clock, id = KEYS[1], ARGV[1], ARGV[2]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
local refusal = check_ledger()
if refusal then return refusal end
local stored = redis.call("HGET", key.results, id)
if not stored then return false end
local completed, expires, value = string.match(stored, "^(%d+)\n(%d+)\n(.*)$")
if tonumber(expires) <= now then return false end
return { completed, value }
