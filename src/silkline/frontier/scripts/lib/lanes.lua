-- Lanes: the queues of one host, one per priority. Most hosts use only lane 0, and need no entry in `lanes`. For the others it lists
-- the priorities with requests, highest first.
-- Needs: key, queue_key, ledger.
local any_lanes

-- Returns whether any host has a priority other than 0.
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

-- Returns the highest priority of a host that has requests.
local function best_lane(host)
  local lanes = lanes_of(host)
  return lanes and tonumber(string.match(lanes, "^%S+")) or 0
end

-- Returns the highest priority at which the host has requests, or nil.
local function top_lane(host)
  local lane = best_lane(host)
  if lane ~= 0 or has_requests(0, host) then return lane end
  return nil
end

local function store_lanes(host, priorities)
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
  store_lanes(host, priorities)
end

local function close_lane(host, priority)
  local lanes, priorities = lanes_of(host), {}
  if not lanes then return end
  for other in string.gmatch(lanes, "%S+") do
    if tonumber(other) ~= priority then priorities[#priorities + 1] = tonumber(other) end
  end
  store_lanes(host, priorities)
end

-- Appends requests to a lane. Returns whether it was empty before, and its length now.
local function push(host, priority, items, count)
  local side = ledger.order == "lifo" and "LPUSH" or "RPUSH"
  ledger.queued = ledger.queued + count
  local length = redis.call(side, queue_key(priority, host), unpack(items, 1, count))
  if length > count then return false, length end
  open_lane(host, priority)
  return true, length
end

-- Removes the request that was pushed last, from a lane that has others.
local function unpush(host, priority)
  ledger.queued = ledger.queued - 1
  redis.call(ledger.order == "lifo" and "LPOP" or "RPOP", queue_key(priority, host))
end

-- Puts one request at the front of its lane. Returns whether it was empty before.
local function push_front(host, priority, item)
  ledger.queued = ledger.queued + 1
  if redis.call("LPUSH", queue_key(priority, host), item) > 1 then return false end
  open_lane(host, priority)
  return true
end

-- Deletes all waiting requests of the host.
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
