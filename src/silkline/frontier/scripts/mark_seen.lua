#!lua
-- Mark fingerprints as seen without enqueueing anything: what another crawler has done already.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    fingerprints…
--
-- Returns "marked".
local root, fingerprints = KEYS[1], ARGV
--- @include "keys"
--- @include "ledger"
--- @include "seen"
local refusal = read_ledger()
if refusal then return refusal end
for _, fingerprint in ipairs(fingerprints) do mark_seen(fingerprint, "") end
write_ledger()
return "marked"
