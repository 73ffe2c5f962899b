-- Finds waiting requests again by the references that `requests` returned. A request that has moved on is not found.
-- Needs: key.
--- @include "item_digest"
local NEAR = 500 -- how far a request may have moved since it was listed

-- Returns where the item with this length and digest is: at the index or near it, and not at an index that is `taken`.
local function find_queued(lane, host, index, length, name, taken)
  local function is_it(item, at)
    return item and not taken[at] and #item == length and digest(item) == name
  end
  if is_it(redis.call("LINDEX", queue_key(lane, host), index), index) then return index end
  local start = math.max(0, index - NEAR)
  for i, item in ipairs(redis.call("LRANGE", queue_key(lane, host), start, index + NEAR - 1)) do
    if is_it(item, start + i - 1) then return start + i - 1 end
  end
end

-- Returns the delayed member with this number, which is due at this time.
local function find_delayed(due, skip, number)
  local function is_it(member)
    return member and string.sub(member, 1, #number + 1) == number .. "\n"
  end
  local first = redis.call("ZCOUNT", key.delayed, "-inf", "(" .. due)
  local there = redis.call("ZRANGE", key.delayed, first + skip, first + skip)[1]
  if is_it(there) then return there end
  local start, ties = math.max(0, skip - NEAR), redis.call("ZCOUNT", key.delayed, due, due)
  local last = math.min(ties, skip + NEAR) - 1
  for _, member in ipairs(last >= start and redis.call("ZRANGE", key.delayed, first + start, first + last) or {}) do
    if is_it(member) then return member end
  end
end

-- Adds the request of a reference to `queues`: by host and lane, the indexes at which requests were found.
local function find_queued_reference(text, queues)
  local lane, index, length, name, host = string.match(text, "^ready:(%-?%d+):(%d+):(%d+):(%x+):(.+)$")
  if not lane then return end
  queues[host] = queues[host] or {}
  local taken = queues[host][lane] or {}
  queues[host][lane] = taken
  local found = find_queued(lane, host, tonumber(index), tonumber(length), name, taken)
  if found then taken[found] = true end
end

-- Returns the member of a reference to a delayed request, or nil.
local function read_delayed_reference(text)
  local due, skip, number = string.match(text, "^delayed:(%d+):(%d+):(%d+)$")
  return due and find_delayed(due, tonumber(skip), number)
end
