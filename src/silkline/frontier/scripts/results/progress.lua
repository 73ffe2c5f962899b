#!lua
-- Store the progress of a leased request beside the results. A lease that is no longer held stores nothing.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, token, id of the progress, ms for which it is kept, bytes that the results of the shard may take, the progress
--
-- Returns "stored" or "lost".
local ledger_key, clock, token, id, ttl, limit, value =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "results"
local refusal = check_ledger()
if refusal then return refusal end
if redis.call("HEXISTS", key.leased, token) == 0 then return "lost" end
store_results({ id }, { ttl }, { value }, limit)
write_ledger()
return "stored"
