#!lua flags=allow-oom
-- Extend leases, many in one call. This needs only one key, so that workers keep their leases while a cluster moves the shard to
-- another node. Otherwise, for a token that is no longer held, the strike that its request got when the lease expired is withdrawn:
-- the worker did not crash, only its connection was lost.
--
-- KEYS[1] leases_key  ZSET  token -> ms at which the lease expires; all keys of the shard share its prefix
-- ARGV    clock, lease_ms, tokens…
--
-- Returns {the new expiry in ms, the tokens that are no longer held, separated by spaces}.
local leases_key, clock, lease_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
local ledger_key = string.sub(leases_key, 1, -#":leases" - 1) .. ":ledger"
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
local refusal = check_ledger()
if refusal and not (refuse_migration(root) and redis.call("EXISTS", leases_key) == 1) then return refusal end
local tokens, extended, lost = {}, {}, {}
for i = 3, #ARGV do tokens[#tokens + 1] = ARGV[i] end
local expiries = redis.call("ZMSCORE", leases_key, unpack(tokens))
for i, token in ipairs(tokens) do
  if expiries[i] then
    extended[#extended + 1] = now + lease_ms
    extended[#extended + 1] = token
  else
    lost[#lost + 1] = token
  end
end
if #extended > 0 then
  redis.call("ZREMRANGEBYSCORE", leases_key, "(inf", "+inf") -- changes nothing, see allow_oom
  redis.call("ZADD", leases_key, "XX", unpack(extended))
end
if #lost > 0 and not refusal then -- seldom: only then does Lua create these functions
--- @include "losses"
--- @include "notify"
--- @include "entries"
--- @include "dead_store"
--- @include "strikes"
--- @include "struck"
--- @include "withdraw_strike"
  for _, token in ipairs(lost) do withdraw_strike(token) end
  compare_tokens(lost)
  write_struck()
  write_ledger()
  notify()
end
return { whole(now + lease_ms), table.concat(lost, " ") }
