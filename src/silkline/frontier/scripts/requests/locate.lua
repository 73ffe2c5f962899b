#!lua flags=no-writes
-- Find a request by a substring of its record in one place, a bounded number of entries per call.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    place (leased, delayed, dead or queue), start, most, substring, another substring, host, priority (of a queue)
--
-- Returns {entries searched, position, time or "", entry, position, …} of the entries that contain one of the substrings.
local ledger_key, where, start, most, part, another, host, priority =
  KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6], ARGV[7]
--- @include "keys"
--- @include "ledger"
--- @include "dead_by_host"
--- @include "server_time"
local refusal = check_ledger()
if refusal then return refusal end
local LINES = { queue = 2, leased = 4, delayed = 5, dead = 6 } -- lines before the time of the first attempt
local time_key, names, items -- the sorted set with the times, its members, and the entries

if where == "queue" then
  items = redis.call("LRANGE", queue_key(priority, host), start, start + most - 1)
elseif where == "dead" then
  time_key, names = key.buried, ids_of(host, "-inf", "+inf", start, most) -- only those of the host
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
  local of_host = item and (where == "queue" or find(item, host, 1, true)) -- first, because it excludes the most entries
  if of_host and (find(item, part, 1, true) or find(item, another, 1, true)) then
    reply[#reply + 1] = start + i - 1
    reply[#reply + 1] = time_key and server_time(redis.call("ZSCORE", time_key, names[i])) or ""
    reply[#reply + 1] = (where ~= "queue" or string.byte(item) == 30) and with_server_time(item, LINES[where]) or item
  end
end
return reply
