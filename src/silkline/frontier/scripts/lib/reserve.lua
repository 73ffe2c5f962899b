-- Leases requests in reserve: of a host at its cap, without a place. The caller starts one when a page of the same host is downloaded, and
-- hands over that page's place. So it need not wait for a claim.
-- Needs: key, ledger, now, hosts, entries, lease_hosts.

-- Leases up to `most` requests of the host's best lane in reserve, if it is at its cap and has no delay. Returns how many.
local function lease_reserve(host, most)
  local delay, concurrency, _, blocked, paused = policy(host)
  if most < 1 or delay > 0 or paused or blocked > now or standing(host) < math.max(1, concurrency) then return 0 end
  local lane = best_lane(host)
  local items = redis.call("LPOP", queue_key(lane, host), most) or {}
  for i = 1, #items do lease_item(VACATED .. host, lane, items[i]) end
  if #items < most or not has_requests(lane, host) then close_lane(host, lane) end
  return #items
end
