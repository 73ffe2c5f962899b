#!lua flags=allow-oom
-- Tell a shard its page allowance, or have it surrender what it does not use.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    verb (allow, surrender or read), epoch, allowance
--
-- Returns {epoch, allowance} as they stand now.
local root, verb, epoch, allowance = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
--- @include "keys"
--- @include "ledger"
local refusal = read_ledger()
if refusal then return refusal end
redis.call("HDEL", key.ledger, "") -- a first write that frees memory lets old servers go on when memory is short
local known_epoch = tonumber(redis.call("HGET", key.ledger, "epoch") or 0)
local known = ledger.allowance or 0
if verb == "allow" and epoch == known_epoch and allowance > known then
  known = allowance
  redis.call("HSET", key.ledger, "allowance", known)
  redis.call("PUBLISH", key.bell, "0")
elseif verb == "surrender" then
  local used = ledger.done + redis.call("HLEN", key.leased)
  if used < known then
    known, known_epoch = used, known_epoch + 1
    redis.call("HSET", key.ledger, "allowance", known, "epoch", known_epoch)
  end
end
return { known_epoch, known }
