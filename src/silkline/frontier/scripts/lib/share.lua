-- The share of one host: with a share of a half, it may have as many waiting requests as there are free places, so that there is
-- always room for other hosts. Hosts are not checked before the shard is that full.
-- Needs: key, ledger, lanes.
local SHARE, LEAST_SHARE = 0.5, 1000
local share = tonumber(ledger.host_share) or SHARE
local crowded_below = ledger.capacity * (1 - share) -- free places

-- Returns the number of waiting requests of a host.
local function waiting_of(host)
  local total = 0
  for priority in string.gmatch(lanes_of(host) or "0", "%S+") do
    total = total + redis.call("LLEN", queue_key(priority, host))
  end
  return total
end

-- Returns whether a host with this many waiting requests has reached its share, given the number of free places.
local function is_share(waiting, room)
  return waiting >= LEAST_SHARE and room <= crowded_below and waiting * (1 - share) >= share * room
end
