#!lua flags=allow-oom
-- Keep leases for longer, many in one call.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, lease_ms, tokens…
--
-- Returns {the new expiry in ms, the tokens that are no longer held, separated by spaces}.
local root, clock, lease_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
--- @include "steady"
--- @include "keys"
--- @include "ledger"
local refusal = read_ledger()
if refusal then return refusal end
local tokens, kept, lost = {}, {}, {}
for i = 3, #ARGV do tokens[#tokens + 1] = ARGV[i] end
local expiries = redis.call("ZMSCORE", key.leases, unpack(tokens))
for i, token in ipairs(tokens) do
  if expiries[i] then
    kept[#kept + 1] = now + lease_ms
    kept[#kept + 1] = token
  else
    lost[#lost + 1] = token
  end
end
if #kept > 0 then
  redis.call("ZREMRANGEBYSCORE", key.leases, "(inf", "+inf") -- frees nothing, but lets old servers go on when memory is short
  redis.call("ZADD", key.leases, "XX", unpack(kept))
end
return { whole(now + lease_ms), table.concat(lost, " ") }
