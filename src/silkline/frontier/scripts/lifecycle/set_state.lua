#!lua flags=allow-oom
-- Set the state of the crawl on this shard: open, paused or cancelled. Cancelled is final.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    state
--
-- Returns the state that the shard has now.
local ledger_key, state = KEYS[1], ARGV[1]
--- @include "keys"
--- @include "ledger"
--- @include "allow_oom"
local refusal = check_ledger()
if refusal then return refusal end
if ledger.state == "cancelled" or ledger.state == state then return ledger.state end
allow_oom(key.ledger)
redis.call("HSET", key.ledger, "state", state)
redis.call("PUBLISH", key.bell, "0")
return state
