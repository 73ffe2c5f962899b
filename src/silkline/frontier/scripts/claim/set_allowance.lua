#!lua flags=allow-oom
-- Set the page allowance of a shard, or take back the pages that it does not use.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    verb (allow, surrender or read), epoch, allowance
--
-- Returns the current {epoch, allowance}.
local ledger_key, verb, epoch, allowance = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
--- @include "keys"
--- @include "ledger"
--- @include "allow_oom"
local refusal = check_ledger()
if refusal then return refusal end
allow_oom(key.ledger)
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
