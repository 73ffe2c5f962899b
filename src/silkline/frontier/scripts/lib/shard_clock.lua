-- The shard's clock: the server's, except that it never goes back. If the server's clock is set back, or a server whose clock is behind
-- takes over, the shard's clock continues from where it was. Otherwise delays of hosts and leases of lost workers would last longer.
-- From then on, it is ahead of the server's by that difference. Claims store the time and the difference.
-- Needs: clock, ledger_key.
--- @include "clock"
--- @include "ledger_fields"
local MOMENT, SLOWER = 1000, 10
local stored_ahead = ledger.ahead
local ahead = stored_ahead or 0
do
  if ledger.set_back and not stored_ahead then -- an earlier version ran its clock a tenth slower until the server's caught up
    local by, since = string.match(ledger.set_back, "^(%d+) (%d+)$")
    ahead = math.max(0, by - math.floor((now - since) / SLOWER))
  end
  ahead = math.max(ahead, ledger.time - now)
  now = now + ahead
end
