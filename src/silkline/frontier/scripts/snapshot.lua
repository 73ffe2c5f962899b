#!lua flags=no-writes
-- Count everything on this shard. One script feeds stats, finished, the command line and the dashboard.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    (none)
--
-- Returns pairs of name and value: the ledger, and the sizes of what it does not count itself.
local root = KEYS[1]
--- @include "keys"
--- @include "ledger"
local refusal = read_ledger()
if refusal then return refusal end
local reply = {}
local function tell(name, value)
  reply[#reply + 1] = name
  reply[#reply + 1] = tostring(value)
end
for name, value in pairs(ledger) do
  if type(value) == "number" and value == math.floor(value) then value = whole(value) end
  if value then tell(name, value) end
end
tell("delayed", redis.call("ZCARD", key.delayed))
tell("leased", redis.call("HLEN", key.leased))
tell("dead", redis.call("ZCARD", key.buried))
tell("hosts_ready", redis.call("ZCARD", key.ready))
tell("hosts_waiting", redis.call("ZCARD", key.waiting))
tell("hosts_busy", redis.call("HLEN", key.hosts))
tell("hosts_answered", redis.call("HLEN", key.answers))
return reply
