-- Takes requests back from workers whose leases have expired.
-- Needs: key, now, ledger, hosts, entries, dead_store, strikes, struck.

-- Makes a request a suspect. It gets a strike only if it was a suspect before and a worker had begun it. Otherwise any of the requests
-- that the worker held may have crashed it, or the worker never received this one. The strike is recorded, so that it can be
-- withdrawn if the worker returns.
local function rescue(token, text)
  local host, priority, attempts, doubt, first, record = read_entry(text)
  local strikes = strikes_of(doubt)
  if doubt >= BEGUN then
    strikes = strikes + 1
    note_struck(token)
  end
  ledger.rescued = ledger.rescued + 1
  suspect(token, host, priority, attempts, strikes, first, record, "crashed")
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
