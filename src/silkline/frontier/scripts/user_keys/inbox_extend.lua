#!lua flags=allow-oom
-- Keep messages taken that their taker still works on. Messages that were acknowledged or rejected stay away.
--
-- KEYS[1] root  -  prefix of the keys for the taken messages of an inbox
-- ARGV    clock, hold_ms, ids…
--
-- Returns how many of them are still stored.
local root, clock, hold_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
--- @include "clock"
--- @include "migration"
--- @include "allow_oom"
local refusal = refuse_migration(root)
if refusal then return refusal end
local taken_key, ids, kept = root .. ":taken", {}, 0
for i = 3, #ARGV do ids[#ids + 1] = ARGV[i] end
allow_oom(root .. ":messages")
for _, id in ipairs(ids) do
  if redis.call("ZSCORE", taken_key, id) then
    redis.call("ZADD", taken_key, "XX", now + hold_ms, id)
    kept = kept + 1
  end
end
return kept
