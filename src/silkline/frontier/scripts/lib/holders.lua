-- What locks, semaphores and rate limiters store: `locks_key` has their states, and `lock_ends_key` the time after which a state means
-- the same as none, so that it can be dropped.
-- Needs: crawl, now.
--- @include "whole"
local DROPPED_AT_ONCE = 10
local locks_key, lock_ends_key = crawl .. ":locks", crawl .. ":lock_ends"

-- Writes a state, and drops a few old ones. Without a state, it is deleted.
local function store_state(field, state, ends)
  if state then
    redis.call("HSET", locks_key, field, state)
    redis.call("ZADD", lock_ends_key, whole(math.ceil(ends)), field)
  else
    redis.call("HDEL", locks_key, field)
    redis.call("ZREM", lock_ends_key, field)
  end
  local over = redis.call("ZRANGEBYSCORE", lock_ends_key, "-inf", whole(now), "LIMIT", 0, DROPPED_AT_ONCE)
  if #over == 0 then return end
  redis.call("HDEL", locks_key, unpack(over))
  redis.call("ZREM", lock_ends_key, unpack(over))
end

-- Returns the holders of a lock or semaphore whose time is not over. No holder has more time than it asked for, so that a clock that
-- was set back does not prolong the hold of a process that died. The second result is whether that has changed a holder.
local function read_holders(field)
  local holders, is_changed = {}, false
  local stored = redis.call("HGET", locks_key, field) or ""
  for name, token, ttl, expires in string.gmatch(stored, "(%S+) (%d+) (%d+) (%d+)") do
    local one = { name = name, token = token, ttl = tonumber(ttl), expires = math.min(tonumber(expires), now + ttl) }
    is_changed = is_changed or one.expires < tonumber(expires)
    if one.expires > now then holders[#holders + 1] = one end
  end
  return holders, is_changed
end

local function store_holders(field, holders)
  local lines, ends = {}, 0
  for i, one in ipairs(holders) do
    lines[i] = one.name .. " " .. one.token .. " " .. whole(one.ttl) .. " " .. whole(one.expires)
    ends = math.max(ends, one.expires)
  end
  store_state(field, #lines > 0 and table.concat(lines, "\n"), ends)
end
