#!lua flags=allow-oom
-- Check that the number of accepted requests is the number of stored and finished ones, and correct the counters: missing requests
-- count as discarded, and requests that were not accepted count as accepted.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    repair (1 or "")
--
-- Returns {accepted, found, dead letters, dead letters counted in groups, sum of the groups by reason, sum of the groups by host}.
local ledger_key, repair = KEYS[1], ARGV[1]
--- @include "keys"
--- @include "ledger"
--- @include "allow_oom"
local refusal = check_ledger()
if refusal then return refusal end
local MOST = 10000

-- With more names than MOST, returns the counter instead of the sum.
local function sum_of(sorted)
  if redis.call("ZCARD", sorted) > MOST then return ledger.counted end
  local sum, pairs_found = 0, redis.call("ZRANGE", sorted, 0, MOST, "WITHSCORES")
  for i = 2, #pairs_found, 2 do sum = sum + tonumber(pairs_found[i]) end
  return sum
end

local dead = redis.call("ZCARD", key.buried)
local stored = ledger.queued + redis.call("ZCARD", key.delayed) + redis.call("HLEN", key.leased) + dead + ledger.discarded
if repair == "1" and redis.call("HDEL", key.ledger, "restored") == 1 then -- see restore: requests that were seen and are not stored are done
  ledger.done = math.max(0, ledger.seen_count - stored)
  ledger.accepted = stored + ledger.done
  write_ledger()
end
local found = stored + ledger.done
local reply = { ledger.accepted, found, dead, ledger.counted, sum_of(key.dead_reasons), sum_of(key.dead_hosts) }
if repair == "1" and found ~= ledger.accepted then
  allow_oom(key.ledger)
  if found < ledger.accepted then
    ledger.discarded = ledger.discarded + ledger.accepted - found
  else
    ledger.accepted = found
  end
  write_ledger()
end
return reply
