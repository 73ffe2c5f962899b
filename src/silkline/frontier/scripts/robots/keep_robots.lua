#!lua
-- Store the robots.txt of an origin for all workers.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, origin, fresh_ms, text (as the client packed it; "" if it could not be fetched)
--
-- Returns "kept".
local ledger_key, clock, origin, fresh_ms, text = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "hosts"
--- @include "robots"
local refusal = check_ledger()
if refusal then return refusal end
write_robots(origin, now + fresh_ms, 0, text) -- first, so that a server that is out of memory refuses it
delete_some_robots()
delete_some_expired_policies()
return "kept"
