-- Publishes on the channel `bell` when waiting clients should claim again: in how many milliseconds, or if requests above priority 0 may
-- be claimed now, minus their priority. An earlier version claims at once after a negative number.
-- Needs: key, now.
local earliest, claimable = nil, nil -- `claimable`: the priority at which requests may be claimed since this call

-- Must be called if a host opens or a request is due at this time.
local function expect_at(time)
  if earliest == nil or time < earliest then earliest = time end
end

local function notify()
  if claimable then
    redis.call("PUBLISH", key.bell, whole(-math.max(0, claimable)))
  elseif earliest then
    local head = redis.call("ZRANGE", key.waiting, 0, 0, "WITHSCORES")[2]
    if not head or tonumber(head) >= earliest then
      redis.call("PUBLISH", key.bell, whole(math.max(0, earliest - now)))
    end
  end
end
