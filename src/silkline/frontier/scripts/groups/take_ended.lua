#!lua flags=allow-oom
-- Return notes that calls of groups have ended, after deleting those that were reported to their groups. Watches whose time is over are
-- deleted, too.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, most (notes to return), notes that were reported…
--
-- Returns {how many groups of this shard are overdue, note, note …}.
local ledger_key, clock, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "watches"
local refusal = check_ledger()
if refusal then return refusal end
local MOST_FORGOTTEN = 500
if #ARGV > 2 then redis.call("SREM", key.ended, unpack(ARGV, 3)) end
for _, name in ipairs(redis.call("ZRANGEBYSCORE", key.watch_times, "-inf", whole(now), "LIMIT", 0, MOST_FORGOTTEN)) do forget_watch(name) end
local reply = redis.call("SRANDMEMBER", key.ended, most)
table.insert(reply, 1, redis.call("ZCOUNT", key.groups, "-inf", whole(now)))
return reply
