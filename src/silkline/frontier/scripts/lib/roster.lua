-- Who works on a crawl: a sorted set of names by the time until which they are taken for alive, what they told, and what
-- they were ordered to do.
-- Needs: crawl, now.
local SHUT = "shut" -- a field of the crawl's hash, which goes when the crawl is erased
local workers_key, infos_key, orders_key = crawl .. ":workers", crawl .. ":infos", crawl .. ":orders"

-- A whole number as text; plain concatenation would round it to 14 digits.
local function whole(number)
  return string.format("%d", number)
end

local function others_than(worker)
  local alive = redis.call("ZCOUNT", workers_key, "(" .. whole(now), "+inf")
  return redis.call("ZSCORE", workers_key, worker) and alive - 1 or alive
end
