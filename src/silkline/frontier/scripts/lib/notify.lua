-- Publishes on the channel `bell` in how many milliseconds waiting clients should claim again.
-- Needs: key, now.
local was_empty, added, earliest = nil, false, nil

-- Must be called before hosts are removed from `ready`.
local function look_at_ready()
  if was_empty == nil then was_empty = redis.call("EXISTS", key.ready) == 0 end
end

-- Must be called before a host is added to `ready`.
local function expect_ready()
  look_at_ready()
  added = true
end

-- Must be called if a host opens or a request is due at this time.
local function expect_at(time)
  if earliest == nil or time < earliest then earliest = time end
end

local function notify()
  if added and was_empty and redis.call("EXISTS", key.ready) == 1 then
    redis.call("PUBLISH", key.bell, "0")
  elseif earliest then
    local head = redis.call("ZRANGE", key.waiting, 0, 0, "WITHSCORES")[2]
    if not head or tonumber(head) >= earliest then
      redis.call("PUBLISH", key.bell, whole(math.max(0, earliest - now)))
    end
  end
end
