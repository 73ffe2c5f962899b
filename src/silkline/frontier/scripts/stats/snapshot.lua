#!lua flags=no-writes
-- Return all counters and sizes of this shard, for `stats` and `finished`.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock
--
-- Returns pairs of name and value: the ledger, and the sizes of keys that it does not count.
local ledger_key, clock = KEYS[1], ARGV[1]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
local refusal = check_ledger()
if refusal then return refusal end
local LONG_MS = 60000
local reply = {}
local function add(name, value)
  reply[#reply + 1] = name
  reply[#reply + 1] = tostring(value)
end
for name, value in pairs(ledger) do
  if type(value) == "number" and value == math.floor(value) then value = whole(value) end
  if value then add(name, value) end
end
local losses = redis.call("HMGET", key.ledger, "losses", "lost_at")
add("losses", losses[1] or 0)
add("lost_at", losses[2] or 0)
add("delayed", redis.call("ZCARD", key.delayed))
add("leased", redis.call("HLEN", key.leased))
add("held", redis.call("ZCOUNT", key.leases, "(" .. whole(now), "(inf")) -- leases that have not expired
add("dead", redis.call("ZCARD", key.buried))
add("hosts_ready", redis.call("ZCARD", key.ready))
add("hosts_waiting", redis.call("ZCARD", key.waiting))
-- beyond the delay of the crawl: they are blocked, slowed down, or have a long delay
add("hosts_closed", redis.call("ZCOUNT", key.waiting, "(" .. whole(now + ledger.delay + LONG_MS), "+inf"))
add("hosts_busy", redis.call("HLEN", key.hosts))
add("hosts_answered", redis.call("HLEN", key.answers))
return reply
