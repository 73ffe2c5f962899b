#!lua flags=allow-oom
-- Ask for the robots.txt of an origin. If none is fresh, the first to ask is to fetch it, and the others wait: until it
-- is kept, for as long as fetching may take, or until the lease is lost with which it is fetched.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, slot, call, origin, lock_ms, token ("" when it is fetched without a lease)
--
-- With a lock of 0 ms it only looks, and nobody is to fetch it.
--
-- Returns {known, fetching, yours or unknown, for how many ms that holds, text}: the text as it was kept, out of date unless it is
-- known; "" when there is none, or when it could not be fetched.
local root, clock, slot, call, origin, lock_ms, token =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
--- @include "steady"
--- @include "keys"
--- @include "ledger"
--- @include "once"
--- @include "robots"
local refusal = read_ledger()
if refusal then return refusal end
local fresh, locked, text = read_robots(origin)
if replay() then return { "yours", whole(math.max(0, locked - now)), text } end
if fresh > now then return { "known", whole(fresh - now), text } end
if lock_ms == 0 then return { "unknown", "0", text } end
if locked > now then return { "fetching", whole(locked - now), text } end
redis.call("HDEL", key.robots, "") -- a first write that frees memory lets old servers go on when memory is short
write_robots(origin, fresh, now + lock_ms, text, token)
remember("yours")
return { "yours", whole(lock_ms), text }
