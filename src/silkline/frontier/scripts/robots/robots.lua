#!lua flags=allow-oom
-- Read the robots.txt of an origin. If it is not fresh, the first caller must fetch it, and the others wait until it is stored, the
-- lock expires, or the lease with which it is fetched ends.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, slot, call, origin, lock_ms, token ("" if it is fetched without a lease)
--         lock_ms 0 only reads: no caller has to fetch it
--
-- Returns {known, fetching, yours (the caller must fetch it) or unknown, for how many ms this is valid, text}: the stored text, out of
-- date unless the state is known; "" if there is none, or if it could not be fetched.
local ledger_key, clock, slot, call, origin, lock_ms, token =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "idempotency"
--- @include "hosts"
--- @include "robots"
--- @include "allow_oom"
local refusal = check_ledger()
if refusal then return refusal end
local fresh, locked, text = read_robots(origin)
if replay() then return { "yours", whole(math.max(0, locked - now)), text } end
if fresh > now then return { "known", whole(fresh - now), text } end
if lock_ms == 0 then return { "unknown", "0", text } end
if locked > now then return { "fetching", whole(locked - now), text } end
allow_oom(key.robots)
write_robots(origin, fresh, now + lock_ms, text, token)
remember("yours")
return { "yours", whole(lock_ms), text }
