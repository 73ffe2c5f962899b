#!lua flags=allow-oom
-- Remove fingerprints from the seen filter, so that their requests can be enqueued again.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    slot, call, fingerprints…
--
-- Returns how many were in the filter, or an error for a filter that cannot forget.
local ledger_key, slot, call = KEYS[1], ARGV[1], ARGV[2]
--- @include "keys"
--- @include "ledger"
--- @include "idempotency"
--- @include "seen"
local refusal = check_ledger()
if refusal then return refusal end
if ledger.seen == "bloom" then return redis.error_reply("CANNOTFORGET a bloom filter cannot forget") end
local stored = replay()
if stored then return stored end
local forgotten = 0
for i = 3, #ARGV do
  if buckets_forget(ARGV[i]) then forgotten = forgotten + 1 end
end
write_ledger()
local reply = tostring(forgotten)
remember(reply)
return reply
