-- The time in milliseconds: that of the server, or the one that the caller passed (in tests).
-- Needs: clock.
local now
if clock ~= "" then
  now = tonumber(clock)
else
  local time = redis.call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
