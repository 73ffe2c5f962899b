-- What is kept of robots.txt: of each origin two times, the token of the lease with which it is fetched (if any), and the text,
-- as the client packed it, in one hash.
-- Needs: key, now, whole.
local STALE = 86400000 -- a text is of use for another day after it was fresh, if no newer one can be fetched

-- Whether the lease with which somebody fetches has run out: then nobody does any more.
local function is_over(token)
  return token ~= "" and tonumber(redis.call("ZSCORE", key.leases, token) or 0) <= now
end

-- Until when the text is fresh, until when somebody fetches it, and the text ("" for none).
local function read_robots(origin)
  local kept = redis.call("HGET", key.robots, origin)
  if not kept then return 0, 0, "" end
  local fresh, locked, token, at = string.match(kept, "^(%d+) (%d+) ?(%d*)\n()")
  fresh, locked = tonumber(fresh), tonumber(locked)
  if locked > now and is_over(token) then locked = 0 end
  return fresh, locked, fresh + STALE > now and string.sub(kept, at) or ""
end

local function write_robots(origin, fresh, locked, text, token)
  local who = token and token ~= "" and " " .. token or ""
  redis.call("HSET", key.robots, origin, whole(fresh) .. " " .. whole(locked) .. who .. "\n" .. text)
end

-- Looks at some origins and forgets those that are out of date. Two for each one that is kept: so no more than about
-- half of them ever are.
local function forget_some_robots()
  for _, origin in ipairs(redis.call("HRANDFIELD", key.robots, 2)) do
    local fresh, locked = read_robots(origin)
    if fresh + STALE <= now and locked <= now then redis.call("HDEL", key.robots, origin) end
  end
end
