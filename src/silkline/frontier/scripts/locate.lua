#!lua flags=no-writes
-- Look for a request by a part of its record, in one place, a bounded number of entries per call.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    place (leased, delayed, dead or queue), start, most, part, another part, host, priority (of a queue)
--
-- Returns {how many were looked at, position, score or token, entry, position, …} of those that hold one of the parts.
local root, where, start, most, part, another, host, priority =
  KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6], ARGV[7]
--- @include "keys"
--- @include "ledger"
local refusal = read_ledger()
if refusal then return refusal end
local scores, items = {}, {}

local function from_sorted_set(sorted, hash)
  local pairs_found = redis.call("ZRANGE", sorted, start, start + most - 1, "WITHSCORES")
  for i = 1, #pairs_found, 2 do
    items[#items + 1] = pairs_found[i]
    scores[#scores + 1] = pairs_found[i + 1]
  end
  if hash and #items > 0 then items = redis.call("HMGET", hash, unpack(items)) end
end

if where == "leased" then
  from_sorted_set(key.leases, key.leased)
elseif where == "delayed" then
  from_sorted_set(key.delayed)
elseif where == "dead" then
  from_sorted_set(key.buried, key.dead)
else
  items = redis.call("LRANGE", queue_key(priority, host), start, start + most - 1)
end
local reply = { #items }
local find = string.find
for i, item in ipairs(items) do
  local of_host = item and (where == "queue" or find(item, host, 1, true)) -- first: it leaves the fewest
  if of_host and (find(item, part, 1, true) or find(item, another, 1, true)) then
    reply[#reply + 1] = start + i - 1
    reply[#reply + 1] = scores[i] or ""
    reply[#reply + 1] = item
  end
end
return reply
