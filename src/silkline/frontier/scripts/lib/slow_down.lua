-- What a host asks for: a pause, or fewer requests.
-- Needs: key, now, hosts, entries.
local LEAST_SLOWED, MOST_SLOWED = 250, 3600000 -- ms

local function block(host, time)
  local words = own_policy(host)
  words[4] = whole(math.max(tonumber(words[4]) or 0, time))
  store_policy(host, words)
  local leased, spent = standing(host)
  place(host, leased, spent, top_lane(host))
end

-- Doubles the delay of a host that asked to slow down without Retry-After, from now on. Responses to requests that were in progress
-- when the delay was last doubled do not double it again.
local function slow(host, token)
  delete_expired_policy(host)
  local words, started = own_policy(host), math.floor(number_of(token) / 1024)
  if started <= (tonumber(words[SINCE]) or 0) then return end
  local slowed = math.min(math.max(policy(host) * 2, LEAST_SLOWED), MOST_SLOWED)
  words[SLOWED], words[SINCE] = whole(slowed), whole(now)
  store_policy(host, words)
  local leased, spent, stored = standing(host)
  if not stored then spent = tonumber(redis.call("ZSCORE", key.idle, host) or 0) end
  local delay = policy(host)
  place(host, leased, math.max(spent, now + delay), top_lane(host))
end
