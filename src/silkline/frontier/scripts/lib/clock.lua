-- The server's clock in milliseconds, unless the caller supplied one (tests do).
-- Needs: clock.
local now
if clock ~= "" then
  now = tonumber(clock)
else
  local time = redis.call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
