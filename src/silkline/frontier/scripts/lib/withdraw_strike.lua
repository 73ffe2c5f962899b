-- Withdraws strikes: a worker that settles or extends a lease after it expired did not crash, only its connection was lost. So the
-- strike of that lease is withdrawn, wherever the request is now.
-- Needs: key, now, ledger, notify, entries, dead_store, strikes, struck.
--- @include "allow_oom"

local function one_strike_less(doubt)
  return strikes_of(doubt) > 0 and doubt - 1 or doubt
end

-- Revives a request that was buried because of its strikes. A request that a verdict has buried has fewer strikes, and stays dead.
local function revive_struck(token, letter)
  local reason, at = string.match(letter, "^([^\n]*)\n[^\n]*\n()")
  local host, priority, attempts, doubt, first, record = read_entry(string.sub(letter, at))
  if attempts >= MOST_ATTEMPTS or strikes_of(doubt) < ledger.strikes then return end
  remove_dead(whole(number_of(token)), reason, host)
  suspect(token, host, priority, attempts, strikes_of(doubt) - 1, first, record, reason)
end

-- Withdraws the strike that the request got when this lease expired. Returns whether it got one.
local function withdraw_strike(token)
  local last = take_struck(token)
  if not last then return false end
  allow_oom(key.ledger)
  local text = redis.call("HGET", key.leased, last)
  local letter = not text and redis.call("HGET", key.dead, whole(number_of(last)))
  if letter then
    revive_struck(last, letter)
  elseif not text then
    note_withdrawn(last)
    expect_at(now)
  else
    local _, _, attempts = read_entry(text)
    if attempts < MOST_ATTEMPTS then redis.call("HSET", key.leased, last, with_doubt(text, one_strike_less)) end
  end
  return true
end
