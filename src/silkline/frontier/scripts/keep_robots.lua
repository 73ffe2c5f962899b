#!lua
-- Keep the robots.txt of an origin for all who ask.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, origin, fresh_ms, text (as the client packed it; "" when it could not be fetched)
--
-- Returns "kept".
local root, clock, origin, fresh_ms, text = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
--- @include "steady"
--- @include "keys"
--- @include "ledger"
--- @include "robots"
local refusal = read_ledger()
if refusal then return refusal end
write_robots(origin, now + fresh_ms, 0, text) -- first, so that a server without memory refuses it
forget_some_robots()
return "kept"
