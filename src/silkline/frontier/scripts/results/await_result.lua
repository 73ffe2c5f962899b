#!lua
-- Return the result of a completed request, as result does; if there is none, note who waits for it. Then settle publishes it.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, id of the result, channel of the process that waits, ms for which it waits
--
-- Returns {ms at which the request was completed, the value}, or false.
local ledger_key, clock, id, channel, wait = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local MOST_CHANNELS = 8192 -- bytes; beyond that, callers look for the result themselves
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
local refusal = check_ledger()
if refusal then return refusal end
local stored = redis.call("HGET", key.results, id)
if stored then
  local completed, expires, value = string.match(stored, "^(%d+)\n(%d+)\n(.*)$")
  if tonumber(expires) > now then return { completed, value } end
end
local awaited_key = root .. ":awaited:" .. id
local channels = redis.call("GET", awaited_key) or ""
if not string.find(channels, channel, 1, true) and #channels < MOST_CHANNELS then
  redis.call("SET", awaited_key, channels .. " " .. channel, "PX", math.max(wait, redis.call("PTTL", awaited_key)))
elseif redis.call("PTTL", awaited_key) < wait then
  redis.call("PEXPIRE", awaited_key, wait)
end
return false
