#!lua flags=allow-oom
-- Keep messages taken that their taker still works on. Messages that were acknowledged or rejected stay away.
--
-- KEYS[1] root  -  prefix of the keys for the taken messages of an inbox
-- ARGV    clock, hold_ms, lines: ids, one per line
--
-- Returns how many of them are still stored.
local root, clock, hold_ms, lines = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
--- @include "clock"
--- @include "migration"
--- @include "allow_oom"
--- @include "inbox"
local refusal = refuse_migration(root)
if refusal then return refusal end
local kept = 0
allow_oom(messages_key)
for _, id in ipairs(read_ids(lines)) do
  if redis.call("HEXISTS", messages_key, id) == 1 then
    redis.call("ZADD", taken_key, now + hold_ms, id)
    kept = kept + 1
  end
end
return kept
