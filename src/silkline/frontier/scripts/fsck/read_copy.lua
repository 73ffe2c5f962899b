#!lua flags=no-writes
-- Read what the ledger of a shard stores about its crawl, to restore lost settings.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    (none)
--
-- Returns {settings as JSON, delay in ms, concurrency, burst, state, epoch, allowance}; each nil if it is not stored.
local ledger_key = KEYS[1]
return redis.call("HMGET", ledger_key, "settings", "delay", "concurrency", "burst", "state", "epoch", "allowance")
