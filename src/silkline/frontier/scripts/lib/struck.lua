-- Strikes that may be withdrawn: those of expired leases, because their workers may have lost only the connection. The field `struck` of
-- the ledger lists them, the oldest first, as "expired:last": the token of the lease that expired, and the token of the request's last
-- lease, by which it is found. "*:last" is a strike that was withdrawn while the request waited; it is subtracted when the request is
-- leased again. The list is read only if a strike is added, counted or withdrawn.
-- Needs: key, entries.
local WITHDRAWN = "*"
local MOST_STRUCK = 100 -- older ones are dropped, and can no longer be withdrawn
local MOST_ATTEMPTS = 10 -- from this attempt on, no strike is withdrawn: a request may block its worker again and again
local struck, struck_changed = nil, false

local function read_struck()
  if struck then return struck end
  struck = {}
  for expired, last in string.gmatch(redis.call("HGET", key.ledger, "struck") or "", "(%S+):(%S+)") do
    struck[#struck + 1] = { expired = expired, last = last }
  end
  return struck
end

local function write_struck()
  if not struck_changed then return end
  local words = {}
  for i = math.max(1, #struck - MOST_STRUCK + 1), #struck do
    words[#words + 1] = struck[i].expired .. ":" .. struck[i].last
  end
  if #words == 0 then
    redis.call("HDEL", key.ledger, "struck")
  else
    redis.call("HSET", key.ledger, "struck", table.concat(words, " "))
  end
end

-- Records the strike of a lease that has expired.
local function note_struck(token)
  table.insert(read_struck(), { expired = token, last = token })
  struck_changed = true
end

-- Removes the strike of this token from the list. Returns the token of the request's last lease, or nil.
local function take_struck(token)
  if not number_of(token) then return nil end
  for i, strike in ipairs(read_struck()) do
    if strike.expired == token then
      struck_changed = true
      return table.remove(struck, i).last
    end
  end
  return nil
end

-- Records that a strike was withdrawn while the request waited.
local function note_withdrawn(last)
  table.insert(read_struck(), { expired = WITHDRAWN, last = last })
  struck_changed = true
end

-- Returns the strikes of the waiting request with this number, without the withdrawn ones.
local function strikes_left(number, attempts, doubt)
  local strikes = strikes_of(doubt)
  if strikes == 0 or attempts >= MOST_ATTEMPTS then return strikes end
  for _, strike in ipairs(read_struck()) do
    if strike.expired == WITHDRAWN and number_of(strike.last) == number then strikes = strikes - 1 end
  end
  return math.max(0, strikes)
end

-- Updates the list after the request with this number was leased again. Withdrawn strikes are subtracted by then.
local function follow_struck(number, token)
  for i = #read_struck(), 1, -1 do
    local strike = struck[i]
    if number_of(strike.last) == number then
      struck_changed = true
      if strike.expired == WITHDRAWN then table.remove(struck, i) else strike.last = token end
    end
  end
end
