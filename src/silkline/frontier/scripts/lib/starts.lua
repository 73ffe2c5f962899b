-- What may be started: by a host's pace, its cap and its block.
-- Needs: now, hosts.

-- How many requests the host's pace, cap and block allow to start now.
local function free_starts(host, leased, spent)
  local delay, concurrency, burst, blocked, paused = policy(host)
  if paused or blocked > now then return 0, delay end
  local free = concurrency - leased
  if delay > 0 then
    free = math.min(free, math.floor(((burst - 1) * delay - math.max(0, spent - now)) / delay) + 1)
  end
  return free, delay
end
