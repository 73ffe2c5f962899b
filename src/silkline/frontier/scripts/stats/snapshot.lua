#!lua flags=no-writes
-- Return all counters and sizes of this shard, for `stats` and `finished`.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, most (hosts with priorities other than 0 to examine, 0 for none)
--
-- Returns pairs of name and value: the ledger, and the sizes of keys that it does not count. `priorities` has "priority requests" of the
-- ready requests with a priority other than 0, an estimate if there are more hosts than are examined.
local ledger_key, clock, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
local refusal = check_ledger()
if refusal then return refusal end
local LONG_MS = 60000
local MOST_LANES = 1000
local reply = {}

-- Returns hosts and their priorities, all or a random sample, and by which factor the sample is too small.
local function some_lanes()
  local hosts = redis.call("HLEN", key.lanes)
  return redis.call("HRANDFIELD", key.lanes, most, "WITHVALUES"), math.max(1, hosts / most)
end

-- Counts the ready requests of these hosts by priority.
local function count_lanes(lanes)
  local counts, priorities, counted = {}, {}, 0
  for i = 1, #lanes, 2 do
    for priority in string.gmatch(lanes[i + 1], "%S+") do
      if priority ~= "0" and counted < MOST_LANES then
        counted = counted + 1
        if not counts[priority] then priorities[#priorities + 1] = priority end
        counts[priority] = (counts[priority] or 0) + redis.call("LLEN", queue_key(priority, lanes[i]))
      end
    end
  end
  return counts, priorities
end

local function by_priority()
  if most < 1 or redis.call("EXISTS", key.lanes) == 0 then return "" end
  local lanes, factor = some_lanes()
  local counts, priorities = count_lanes(lanes)
  for i, priority in ipairs(priorities) do
    priorities[i] = priority .. " " .. whole(math.floor(counts[priority] * factor + 0.5))
  end
  return table.concat(priorities, "\n")
end

local function add(name, value)
  reply[#reply + 1] = name
  reply[#reply + 1] = tostring(value)
end
for name, value in pairs(ledger) do
  if type(value) == "number" and value == math.floor(value) then value = whole(value) end
  if value then add(name, value) end
end
local losses = redis.call("HMGET", key.ledger, "losses", "lost_at")
local results = redis.call("ZCOUNT", key.result_times, "(" .. whole(now), "+inf")
add("results", results)
if results == 0 then add("result_bytes", 0) end -- stands behind that of the ledger, and counts
add("priorities", by_priority())
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
