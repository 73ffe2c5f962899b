-- The stored robots.txt files, in one hash. For each origin: the time until which it is fresh, the time until which a worker may
-- fetch it, the token of the lease with which it is fetched (if any), and the text as the client packed it.
-- Needs: key, now, whole, hosts.
local STALE = 86400000 -- ms: a text is kept for another day after it was fresh, in case no newer one can be fetched

-- Returns whether the lease with which a worker fetches has ended: then no worker fetches it.
local function has_ended(token)
  return token ~= "" and tonumber(redis.call("ZSCORE", key.leases, token) or 0) <= now
end

-- Returns until when the text is fresh, until when a worker may fetch it, and the text ("" for none).
local function read_robots(origin)
  local stored = redis.call("HGET", key.robots, origin)
  if not stored then return 0, 0, "" end
  local fresh, locked, token, at = string.match(stored, "^(%d+) (%d+) ?(%S*)\n()")
  fresh, locked = tonumber(fresh), tonumber(locked)
  if locked > now and has_ended(token) then locked = 0 end
  return fresh, locked, fresh + STALE > now and string.sub(stored, at) or ""
end

local function write_robots(origin, fresh, locked, text, token)
  local holder = token and token ~= "" and " " .. token or ""
  redis.call("HSET", key.robots, origin, whole(fresh) .. " " .. whole(locked) .. holder .. "\n" .. text)
end

-- Deletes the text of an origin, and its crawl delay unless the host's other scheme has a text too. Before the next page of the origin
-- is fetched, its robots.txt is fetched again. If no text was ever stored (`fresh` is 0), the delay is that of the other scheme.
local function delete_robots(origin, fresh)
  redis.call("HDEL", key.robots, origin)
  if fresh == 0 then return end
  local scheme, host = string.match(origin, "^(%w+)://(.*)$")
  local other = (scheme == "http" and "https" or "http") .. "://" .. (host or "")
  if not host or redis.call("HEXISTS", key.robots, other) == 1 then return end
  local words = own_policy(host)
  if words[CRAWL_DELAY] == "-" then return end
  words[CRAWL_DELAY] = "-"
  store_policy(host, words)
end

-- Checks two random origins, and deletes those that are out of date. It runs once per stored text, so at most about half of the texts
-- are out of date.
local function delete_some_robots()
  for _, origin in ipairs(redis.call("HRANDFIELD", key.robots, 2)) do
    local fresh, locked = read_robots(origin)
    if fresh + STALE <= now and locked <= now then delete_robots(origin, fresh) end
  end
end

-- Checks two random hosts, and deletes blocks and slow-downs that are over. Hosts that are not visited again would keep them forever.
local function delete_some_expired_policies()
  for _, host in ipairs(redis.call("HRANDFIELD", key.policies, 2)) do
    local over = select(7, policy(host))
    if over then delete_expired_policy(host) end
  end
end
