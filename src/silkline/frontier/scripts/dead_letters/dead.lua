#!lua flags=no-writes
-- List dead letters that match a filter, newest first, a bounded number of letters per call.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    skip, most, oldest, newest (ms, or -inf and +inf), host, reason (a substring), status, id
--
-- Returns {letters read, id, buried_ms, letter, id, buried_ms, letter …}.
local ledger_key, skip, most, oldest, newest = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local only_host, only_reason, only_status, only_id = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
--- @include "keys"
--- @include "ledger"
--- @include "server_time"
--- @include "dead_match"
local refusal = check_ledger()
if refusal then return refusal end
oldest, newest = shard_time(oldest), shard_time(newest)
local found, read = matching_letters()
local reply = { read }
for _, pair in ipairs(found) do
  reply[#reply + 1] = pair[1]
  reply[#reply + 1] = server_time(redis.call("ZSCORE", key.buried, pair[1]))
  reply[#reply + 1] = with_server_time(pair[2], 6)
end
return reply
