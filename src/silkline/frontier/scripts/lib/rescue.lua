-- The rescuer: takes requests back from workers that let their leases expire.
-- Needs: key, now, ledger, hosts, entries, graves.

-- Returns one request to its queue, or buries it when it took its worker down too often.
local function rescue(token, text)
  local host, priority, attempts, crashes, first, record = read_entry(text)
  crashes = crashes + 1
  ledger.rescued = ledger.rescued + 1
  if ledger.state == "cancelled" then
    ledger.discarded = ledger.discarded + 1
  elseif crashes >= ledger.strikes then
    lay_dead(token, "crashed", "", host, entry(host, priority, attempts, crashes, first, record))
  elseif push_front(host, priority, queued_form(attempts, crashes, first, record)) then
    wake(host, priority)
  end
  unlease(host, places_of(text))
end

local function rescue_expired(most)
  local tokens = redis.call("ZRANGEBYSCORE", key.leases, "-inf", now, "LIMIT", 0, most)
  if #tokens == 0 then return end
  local texts = redis.call("HMGET", key.leased, unpack(tokens))
  redis.call("ZREM", key.leases, unpack(tokens))
  redis.call("HDEL", key.leased, unpack(tokens))
  for i, token in ipairs(tokens) do
    if texts[i] then rescue(token, texts[i]) end
  end
end
