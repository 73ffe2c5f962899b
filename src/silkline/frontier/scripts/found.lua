#!lua flags=allow-oom
-- Found a shard: write the settings and counters it starts with, unless it has some.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    pairs of field and value
--
-- Returns 1 when the shard was founded now, 0 when it stood already.
local root, fields = KEYS[1], ARGV
--- @include "keys"
if redis.call("EXISTS", key.ledger) == 1 then return 0 end
redis.call("HSET", key.ledger, unpack(fields))
-- A long member makes Redis keep `leases` as a skiplist from the start: in its other form, for up to 128 short members,
-- adding and removing a hundred leases costs three times as much. It never expires.
redis.call("ZADD", key.leases, "+inf", string.rep("-", 65))
return 1
