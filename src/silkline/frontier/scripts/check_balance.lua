#!lua flags=allow-oom
-- Check that every accepted request is somewhere, and make the books agree: what is missing counts as discarded, what nobody
-- accepted as accepted.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    repair (1 or "")
--
-- Returns {accepted, found, dead letters, those that are counted in groups, the sums of the groups by reason and by host}.
local root, repair = KEYS[1], ARGV[1]
--- @include "keys"
--- @include "ledger"
local refusal = read_ledger()
if refusal then return refusal end
local MOST = 10000

-- Of very many names only the total that was counted with them is known.
local function sum_of(sorted)
  if redis.call("ZCARD", sorted) > MOST then return ledger.counted end
  local sum, pairs_found = 0, redis.call("ZRANGE", sorted, 0, MOST, "WITHSCORES")
  for i = 2, #pairs_found, 2 do sum = sum + tonumber(pairs_found[i]) end
  return sum
end

local dead = redis.call("ZCARD", key.buried)
local found = ledger.queued + redis.call("ZCARD", key.delayed) + redis.call("HLEN", key.leased) + dead
  + ledger.done + ledger.discarded
local reply = { ledger.accepted, found, dead, ledger.counted, sum_of(key.dead_reasons), sum_of(key.dead_hosts) }
if repair == "1" and found ~= ledger.accepted then
  redis.call("HDEL", key.ledger, "") -- a first write that frees memory lets old servers go on when memory is short
  if found < ledger.accepted then
    ledger.discarded = ledger.discarded + ledger.accepted - found
  else
    ledger.accepted = found
  end
  write_ledger()
end
return reply
