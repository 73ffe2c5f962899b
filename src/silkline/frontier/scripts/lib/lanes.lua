-- Lanes: the queues of one host, one per priority. Most hosts only ever use lane 0, and cost nothing here;
-- for the others `lanes` lists the priorities that hold requests, highest first.
-- Needs: key, queue_key, ledger.
local any_lanes

-- Whether any host has a priority other than 0.
local function has_lanes()
  if any_lanes == nil then any_lanes = redis.call("EXISTS", key.lanes) == 1 end
  return any_lanes
end

local function lanes_of(host)
  return has_lanes() and redis.call("HGET", key.lanes, host)
end

local function has_requests(priority, host)
  return redis.call("EXISTS", queue_key(priority, host)) == 1
end

-- The highest priority of a host that is known to have requests.
local function best_lane(host)
  local lanes = lanes_of(host)
  return lanes and tonumber(string.match(lanes, "^%S+")) or 0
end

-- The highest priority at which the host has requests, or nil.
local function top_lane(host)
  local lane = best_lane(host)
  if lane ~= 0 or has_requests(0, host) then return lane end
  return nil
end

local function keep_lanes(host, priorities)
  table.sort(priorities, function(a, b) return a > b end)
  if #priorities == 0 or (#priorities == 1 and priorities[1] == 0) then
    redis.call("HDEL", key.lanes, host)
  else
    redis.call("HSET", key.lanes, host, table.concat(priorities, " "))
    any_lanes = true
  end
end

local function open_lane(host, priority)
  local lanes, priorities = lanes_of(host), { priority }
  if not lanes then
    if priority == 0 then return end
    lanes = has_requests(0, host) and "0" or ""
  end
  for other in string.gmatch(lanes, "%S+") do
    if tonumber(other) ~= priority then priorities[#priorities + 1] = tonumber(other) end
  end
  keep_lanes(host, priorities)
end

local function close_lane(host, priority)
  local lanes, priorities = lanes_of(host), {}
  if not lanes then return end
  for other in string.gmatch(lanes, "%S+") do
    if tonumber(other) ~= priority then priorities[#priorities + 1] = tonumber(other) end
  end
  keep_lanes(host, priorities)
end

-- Puts some requests at the end of their lane; true when it was empty before.
local function push(host, priority, items, count)
  local side = ledger.order == "lifo" and "LPUSH" or "RPUSH"
  ledger.queued = ledger.queued + count
  if redis.call(side, queue_key(priority, host), unpack(items, 1, count)) > count then return false end
  open_lane(host, priority)
  return true
end

-- Puts one request at the front of its lane; true when it was empty before.
local function push_front(host, priority, item)
  ledger.queued = ledger.queued + 1
  if redis.call("LPUSH", queue_key(priority, host), item) > 1 then return false end
  open_lane(host, priority)
  return true
end

-- Drops all that waits in the host's lanes.
local function drop_lanes(host)
  for priority in string.gmatch(lanes_of(host) or "0", "%S+") do
    local lane = queue_key(priority, host)
    local length = redis.call("LLEN", lane)
    ledger.queued = ledger.queued - length
    ledger.discarded = ledger.discarded + length
    redis.call("UNLINK", lane)
  end
  redis.call("HDEL", key.lanes, host)
end
