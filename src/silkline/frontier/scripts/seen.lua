#!lua flags=no-writes
-- Ask whether a fingerprint was seen, and which lanes a host has.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    fingerprint, host
--
-- Returns {1 or 0, the host's priorities with requests, highest first, separated by spaces}.
local root, fingerprint, host = KEYS[1], ARGV[1], ARGV[2]
--- @include "keys"
--- @include "ledger"
--- @include "lanes"
--- @include "seen"
local refusal = read_ledger()
if refusal then return refusal end
return { was_seen(fingerprint) and 1 or 0, lanes_of(host) or "0" }
