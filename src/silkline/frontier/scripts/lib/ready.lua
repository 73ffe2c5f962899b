-- Whether hosts are ready, and at which priority, before and after this call.
-- Needs: key, lanes, notify, rank.
local before, added = nil, false -- `before`: the best priority; false if no host was ready

-- Returns the highest priority at which a host is ready, or nil.
local function ready_priority()
  if not has_lanes() then return redis.call("EXISTS", key.ready) == 1 and 0 or nil end
  local score = redis.call("ZRANGE", key.ready, 0, 0, "WITHSCORES")[2]
  return score and priority_of(tonumber(score))
end

-- Must be called before hosts are removed from `ready`.
local function look_at_ready()
  if before == nil then before = ready_priority() or false end
end

-- Must be called before a host is added to `ready`.
local function expect_ready()
  look_at_ready()
  added = true
end

-- Lets clients know if a host is ready while none was before, or at a higher priority.
local function compare_ready()
  if not added or before and not has_lanes() then return end
  local best = ready_priority()
  if best and (not before or best > before) then claimable = best end
end
