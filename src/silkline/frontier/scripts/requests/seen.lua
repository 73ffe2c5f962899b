#!lua flags=no-writes
-- Check whether a fingerprint was seen, and return the lanes of a host.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    fingerprint, host
--
-- Returns {1 or 0, the host's priorities with requests, highest first, separated by spaces}.
local ledger_key, fingerprint, host = KEYS[1], ARGV[1], ARGV[2]
--- @include "keys"
--- @include "ledger"
--- @include "lanes"
--- @include "seen"
local refusal = check_ledger()
if refusal then return refusal end
return { was_seen(fingerprint) and 1 or 0, lanes_of(host) or "0" }
