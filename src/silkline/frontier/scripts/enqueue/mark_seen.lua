#!lua
-- Mark fingerprints as seen without enqueueing their requests: another crawler has fetched them.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    fingerprints…
--
-- Returns "marked".
local ledger_key, fingerprints = KEYS[1], ARGV
--- @include "keys"
--- @include "ledger"
--- @include "seen"
local refusal = check_ledger()
if refusal then return refusal end
for _, fingerprint in ipairs(fingerprints) do mark_seen(fingerprint, "") end
write_ledger()
return "marked"
