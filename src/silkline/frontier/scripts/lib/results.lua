-- Stores results of completed requests for a while, within a limit of bytes: beyond it, those that would expire first are dropped.
-- Needs: key, ledger, now, whole.
local OVERHEAD = 120 -- bytes of a result besides its value, about
local SPARE = 3600000 -- ms after which keys whose results have all expired are deleted; result.lua does not return these
local MOST_DROPPED = 100 -- results that a call drops for each one that it stores

local function result_size(value)
  return #value + OVERHEAD
end

local function drop_results(ids)
  if #ids == 0 then return end
  for _, value in ipairs(redis.call("HMGET", key.results, unpack(ids))) do
    if value then ledger.result_bytes = ledger.result_bytes - result_size(value) end
  end
  redis.call("HDEL", key.results, unpack(ids))
  redis.call("ZREM", key.result_times, unpack(ids))
end

-- Stores a result for `ttl` milliseconds; lines: time of completion, time at which it expires, the value. `limit` is in bytes.
local function store_result(id, ttl, limit, value)
  if redis.call("EXISTS", key.results) == 0 then ledger.result_bytes = 0 end -- all have expired with their keys
  local expires = now + ttl
  drop_results({ id })
  drop_results(redis.call("ZRANGEBYSCORE", key.result_times, "-inf", whole(now), "LIMIT", 0, MOST_DROPPED))
  value = whole(now) .. "\n" .. whole(expires) .. "\n" .. value
  redis.call("HSET", key.results, id, value)
  redis.call("ZADD", key.result_times, whole(expires), id)
  ledger.result_bytes = ledger.result_bytes + result_size(value)
  for _ = 1, MOST_DROPPED do
    if ledger.result_bytes <= limit then break end
    drop_results(redis.call("ZRANGE", key.result_times, 0, 0))
  end
  local last = redis.call("ZRANGE", key.result_times, -1, -1, "WITHSCORES")[2]
  local left = whole(math.max(0, (tonumber(last) or now) - now) + SPARE)
  redis.call("PEXPIRE", key.results, left)
  redis.call("PEXPIRE", key.result_times, left)
end
