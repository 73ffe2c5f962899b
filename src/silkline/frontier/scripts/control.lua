#!lua flags=allow-oom
-- Set the state of the crawl on this shard: open, paused or cancelled. Cancelled is final.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    state
--
-- Returns the state that holds now.
local root, state = KEYS[1], ARGV[1]
--- @include "keys"
--- @include "ledger"
local refusal = read_ledger()
if refusal then return refusal end
if ledger.state == "cancelled" or ledger.state == state then return ledger.state end
redis.call("HDEL", key.ledger, "") -- a first write that frees memory lets old servers go on when memory is short
redis.call("HSET", key.ledger, "state", state)
redis.call("PUBLISH", key.bell, "0")
return state
