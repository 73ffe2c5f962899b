#!lua flags=allow-oom
-- Cancel the crawl on this shard if it is open and all requests that it has ever accepted still wait there. Or open it again after that.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    verb (close or open)
--
-- Returns {accepted requests, offers that were seen before} if it was closed or opened; else {}.
local ledger_key, verb = KEYS[1], ARGV[1]
--- @include "keys"
--- @include "ledger"
--- @include "allow_oom"
local refusal = check_ledger()
if refusal then return refusal end
local from, to = "open", "cancelled"
if verb == "open" then
  if redis.call("HEXISTS", key.ledger, "unused") == 0 then return {} end
  from, to = to, from
elseif ledger.queued + redis.call("ZCARD", key.delayed) ~= ledger.accepted then
  return {}
end
if ledger.state ~= from then return {} end
allow_oom(key.ledger)
redis.call("HDEL", key.ledger, "unused")
redis.call("HSET", key.ledger, "state", to)
if verb == "close" then redis.call("HSET", key.ledger, "unused", 1) end
redis.call("PUBLISH", key.bell, "0")
return { ledger.accepted, ledger.duplicates }
