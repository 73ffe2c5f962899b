#!lua flags=allow-oom
-- Forget that fingerprints were seen, so that their requests can be enqueued again.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    slot, call, fingerprints…
--
-- Returns how many had been seen, or an error for a filter that cannot forget.
local root, slot, call = KEYS[1], ARGV[1], ARGV[2]
--- @include "keys"
--- @include "ledger"
--- @include "once"
--- @include "seen"
local refusal = read_ledger()
if refusal then return refusal end
if ledger.seen == "bloom" then return redis.error_reply("CANNOTFORGET a bloom filter cannot forget") end
local answered = replay()
if answered then return answered end
local forgotten = 0
for i = 3, #ARGV do
  if buckets_forget(ARGV[i]) then forgotten = forgotten + 1 end
end
write_ledger()
answered = tostring(forgotten)
remember(answered)
return answered
