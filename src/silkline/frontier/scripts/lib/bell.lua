-- The bell: tells waiting clients of this shard in how many milliseconds to look.
-- Needs: key, now.
local was_empty, listed, earliest = nil, false, nil

-- To be called before hosts are taken out of `ready`.
local function look_at_ready()
  if was_empty == nil then was_empty = redis.call("EXISTS", key.ready) == 0 end
end

-- To be called before a host enters `ready`.
local function expect_ready()
  look_at_ready()
  listed = true
end

-- To be called when a host or a request will open at this time.
local function expect_at(time)
  if earliest == nil or time < earliest then earliest = time end
end

local function ring()
  if listed and was_empty and redis.call("EXISTS", key.ready) == 1 then
    redis.call("PUBLISH", key.bell, "0")
  elseif earliest then
    local head = redis.call("ZRANGE", key.waiting, 0, 0, "WITHSCORES")[2]
    if not head or tonumber(head) >= earliest then
      redis.call("PUBLISH", key.bell, whole(math.max(0, earliest - now)))
    end
  end
end
