#!lua flags=allow-oom
-- Note what an operator did, for those who ask later. Only the newest acts are kept.
--
-- KEYS[1] root  LIST  acts of operators, the newest first
-- ARGV    clock, slot, call, by, what, about
--
-- Returns "noted".
local root, clock, slot, call, by, what, about = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
--- @include "clock"
--- @include "once"
local KEPT = 1000
local answered = replay()
if answered then return answered end
redis.call("LTRIM", root, 0, KEPT - 2) -- before it grows: a first write that frees memory lets old servers go on
redis.call("LPUSH", root, table.concat({ string.format("%d", now), by, what, about }, "\n"))
remember("noted")
return "noted"
