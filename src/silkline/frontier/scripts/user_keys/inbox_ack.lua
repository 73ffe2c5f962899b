#!lua flags=allow-oom
-- Acknowledge messages that were taken from an inbox: they are deleted.
--
-- KEYS[1] root  -  prefix of the keys for the taken messages of an inbox
-- ARGV    lines: ids, one per line
--
-- Returns how many of them were still stored.
local root, lines = KEYS[1], ARGV[1]
--- @include "migration"
--- @include "inbox"
local refusal = refuse_migration(root)
if refusal then return refusal end
return forget_messages(read_ids(lines))
