-- The workers of a crawl: a sorted set of names by the time until which they count as alive, their reported info, and their orders.
-- Needs: crawl, now.
local SHUT = "shut" -- a field of the crawl's hash, deleted with it
local workers_key, infos_key, orders_key = crawl .. ":workers", crawl .. ":infos", crawl .. ":orders"

--- @include "whole"

local function others_than(worker)
  local alive = redis.call("ZCOUNT", workers_key, "(" .. whole(now), "+inf")
  return redis.call("ZSCORE", workers_key, worker) and alive - 1 or alive
end
