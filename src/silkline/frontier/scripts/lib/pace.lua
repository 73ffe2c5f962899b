-- Computes how many requests a host may start now.
-- Needs: now, hosts.
local ROUNDED = 0.001 -- ms by which the sum of delays with thousandths may be too large

-- Returns how many requests the host's delay, burst, cap and block allow to start now, and its delay.
local function free_starts(host, leased, spent)
  local delay, concurrency, burst, blocked, paused = policy(host)
  if paused or blocked > now then return 0, delay end
  local free = concurrency - leased
  if delay > 0 then
    free = math.min(free, math.floor(((burst - 1) * delay - math.max(0, spent - now) + ROUNDED) / delay) + 1)
  end
  return free, delay
end
