#!lua flags=allow-oom
-- Change how many dead letters this shard keeps. The oldest letters beyond a lower limit are dropped, a bounded number per call.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, limit ("-" for no limit), settings of the crawl (JSON)
--
-- Returns how many letters are left to drop: repeat the call until it is 0.
local ledger_key, clock, limit, settings = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "dead_store"
--- @include "allow_oom"
local refusal = check_ledger()
if refusal then return refusal end
local BATCH = 500
allow_oom(key.ledger)
if redis.call("HEXISTS", key.ledger, "settings") == 1 then redis.call("HSET", key.ledger, "settings", settings) end
ledger.dead_limit = tonumber(limit)
if ledger.dead_limit then
  redis.call("HSET", key.ledger, "dead_limit", limit)
else
  redis.call("HDEL", key.ledger, "dead_limit")
end
local _, left = drop_excess(BATCH)
write_ledger()
return left
