#!lua flags=no-writes
-- Look for a request by a part of its record, in one place, a bounded number of entries per call.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    place (leased, delayed, dead or queue), start, most, part, another part, host, priority (of a queue)
--
-- Returns {how many were looked at, position, time or "", entry, position, …} of those that hold one of the parts.
local root, where, start, most, part, another, host, priority =
  KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6], ARGV[7]
--- @include "keys"
--- @include "ledger"
--- @include "listed"
local refusal = read_ledger()
if refusal then return refusal end
local time_key, names, items -- where the time of an entry is, under which names, and the entries

if where == "queue" then
  items = redis.call("LRANGE", queue_key(priority, host), start, start + most - 1)
elseif where == "dead" then
  time_key, names = key.buried, ids_of(host, "-inf", "+inf", start, most) -- of the host alone
  items = #names > 0 and redis.call("HMGET", key.dead, unpack(names)) or {}
elseif where == "delayed" then
  time_key, names = key.delayed, redis.call("ZRANGE", key.delayed, start, start + most - 1)
  items = names
else
  time_key, names = key.leases, redis.call("ZRANGE", key.leases, start, start + most - 1)
  items = #names > 0 and redis.call("HMGET", key.leased, unpack(names)) or {}
end
local reply = { #items }
local find = string.find
for i, item in ipairs(items) do
  local of_host = item and (where == "queue" or find(item, host, 1, true)) -- first: it leaves the fewest
  if of_host and (find(item, part, 1, true) or find(item, another, 1, true)) then
    reply[#reply + 1] = start + i - 1
    reply[#reply + 1] = time_key and redis.call("ZSCORE", time_key, names[i]) or ""
    reply[#reply + 1] = item
  end
end
return reply
