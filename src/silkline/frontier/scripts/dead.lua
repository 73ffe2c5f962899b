#!lua flags=no-writes
-- List dead letters that match a filter, newest first, a bounded number of letters per call.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    skip, most, oldest, newest (ms, or -inf and +inf), host, reason (a part of it), status, id
--
-- Returns {how many were looked at, id, buried_ms, letter, id, buried_ms, letter …}.
local root, skip, most, oldest, newest = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local only_host, only_reason, only_status, only_id = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
--- @include "keys"
--- @include "ledger"
--- @include "letters"
local refusal = read_ledger()
if refusal then return refusal end
local found, looked = matching_letters()
local reply = { looked }
for _, pair in ipairs(found) do
  reply[#reply + 1] = pair[1]
  reply[#reply + 1] = redis.call("ZSCORE", key.buried, pair[1])
  reply[#reply + 1] = pair[2]
end
return reply
