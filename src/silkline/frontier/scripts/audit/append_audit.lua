#!lua flags=allow-oom
-- Append an entry to the audit log. Only the newest entries are kept.
--
-- KEYS[1] root  LIST  entries of the audit log, newest first
-- ARGV    clock, slot, call, by, what, about
--
-- Returns "noted".
local root, clock, slot, call, by, what, about = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
--- @include "clock"
--- @include "idempotency"
--- @include "migration"
local refusal = refuse_migration(root)
if refusal then return refusal end
local KEPT = 1000
local stored = replay()
if stored then return stored end
redis.call("LTRIM", root, 0, KEPT - 2) -- first: it cannot use more memory, see allow_oom
redis.call("LPUSH", root, table.concat({ string.format("%d", now), by, what, about }, "\n"))
remember("noted")
return "noted"
