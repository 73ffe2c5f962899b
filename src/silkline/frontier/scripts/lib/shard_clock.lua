-- The shard's clock: the server's, except that it never goes back. If the server's clock is set back, or a server whose clock is behind
-- takes over, the shard's clock continues from where it was. Otherwise delays of hosts and leases of lost workers would last longer.
-- From then on, it is ahead of the server's by that difference. Claims store the time and the difference.
-- Needs: clock, ledger_key.
--- @include "clock"
local MOMENT, SLOWER = 1000, 10
local ahead, stored_ahead = 0, false
do
  local known = redis.pcall("HMGET", ledger_key, "ahead", "time", "set_back") -- an error if the cluster has just moved the key
  stored_ahead = tonumber(known[1])
  ahead = stored_ahead or 0
  if known[3] and not stored_ahead then -- an earlier version ran its clock a tenth slower until the server's caught up
    local by, since = string.match(known[3], "^(%d+) (%d+)$")
    ahead = math.max(0, by - math.floor((now - since) / SLOWER))
  end
  ahead = math.max(ahead, (tonumber(known[2]) or 0) - now)
  now = now + ahead
end
