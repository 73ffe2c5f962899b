-- The shard's clock: the server's, except that it does not go back. When the server's is set back (or another server with a
-- clock that is behind takes over), the shard's goes on from where it was, a tenth slower, until the other has caught up: or
-- else hosts would rest, and the leases of lost workers last, for as much longer. For a moment it stands still instead.
-- Claims keep what time it was.
-- Needs: clock, root.
--- @include "clock"
local MOMENT, SLOWER = 1000, 10
local server_time, set_back, was_set_back = now, nil, false
do
  local known = redis.call("HMGET", root .. ":ledger", "set_back", "time")
  local it_was = tonumber(known[2]) or 0
  set_back = known[1]
  if set_back then
    local by, since = string.match(set_back, "^(%d+) (%d+)$")
    now = now + math.max(0, by - math.floor((now - since) / SLOWER))
  end
  was_set_back = it_was > now + MOMENT
  now = math.max(now, it_was)
end
