-- Handles a request whose worker was lost.
-- Needs: key, now, ledger, notify, entries, dead_store.

-- Stores the request as a suspect, or buries it if it has too many strikes. Returns whether it was buried.
local function suspect(token, host, priority, attempts, strikes, first, record, reason)
  if ledger.state == "cancelled" then
    ledger.discarded = ledger.discarded + 1
  elseif strikes >= ledger.strikes then
    store_dead(whole(number_of(token)), reason, "", host, entry(host, priority, attempts, strikes, first, record))
    return true
  else
    local text = entry(host, priority, attempts, SUSPECT + strikes, first, record)
    redis.call("ZADD", key.delayed, whole(now), whole(number_of(token)) .. "\n" .. text)
    expect_at(now)
  end
  return false
end
