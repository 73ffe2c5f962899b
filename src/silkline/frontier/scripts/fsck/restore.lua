#!lua flags=allow-oom
-- Write the ledger of a shard that has lost it. The checks that follow correct its counters.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    field, value…
--
-- Returns 1, or 0 if the shard has a ledger.
local ledger_key, fields = KEYS[1], ARGV
--- @include "keys"
--- @include "migration"
--- @include "allow_oom"
local refusal = refuse_migration(root)
if refusal then return refusal end
if redis.call("EXISTS", ledger_key) == 1 then return 0 end
local RANK = 4398046511104 -- rank.lua has the same
local last = tonumber(redis.call("ZREVRANGE", key.ready, 0, 0, "WITHSCORES")[2] or 0)
allow_oom(ledger_key)
redis.call("HSET", ledger_key, "turn", whole(last % RANK), "restored", 1, unpack(fields))
redis.call("ZADD", key.leases, "+inf", string.rep("-", 65)) -- see init_shard
return 1
