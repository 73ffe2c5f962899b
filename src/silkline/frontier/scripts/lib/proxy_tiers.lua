-- Hosts that are fetched through a later tier of proxies, because they block the earlier ones: a sorted set of "host tier" by the number
-- of the change, which is about the time in ms. The first tier is 0, and is not stored.
-- Needs: crawl, now.
local proxy_tiers_key = crawl .. ":proxy_tiers"
local MOST_HOSTS, TIER_LASTS_MS, MOST_TIERS = 10000, 3600000, 9

-- Moves a host to a tier, unless it is at this one or a later one already. Returns whether it has moved.
local function set_tier(host, tier, change)
  local others = {}
  for other = 1, MOST_TIERS do
    local since = redis.call("ZSCORE", proxy_tiers_key, host .. " " .. other)
    if since and other >= tier and tonumber(since) > now - TIER_LASTS_MS then return false end
    others[other] = host .. " " .. other
  end
  redis.call("ZREM", proxy_tiers_key, unpack(others))
  redis.call("ZADD", proxy_tiers_key, change, host .. " " .. tier)
  redis.call("ZREMRANGEBYRANK", proxy_tiers_key, 0, -MOST_HOSTS - 1)
  return true
end

-- Returns at most `most` hosts, their tiers and for how many ms they stay, that were moved after a change; and the number of the
-- last one if there may be more, else nil.
local function moved_hosts(after, most)
  local stored = redis.call("ZRANGEBYSCORE", proxy_tiers_key, after, "+inf", "WITHSCORES", "LIMIT", 0, most)
  local moved = {}
  for i = 1, #stored, 2 do
    local host, tier = string.match(stored[i], "^(.*) (%d)$")
    local left = tonumber(stored[i + 1]) + TIER_LASTS_MS - now
    if host and left > 0 then moved[#moved + 1] = { host = host, tier = tier, left = left } end
  end
  return moved, #stored == 2 * most and tonumber(stored[#stored]) or nil
end
