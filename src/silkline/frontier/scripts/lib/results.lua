-- Stores results of completed requests for a while, within a limit of bytes: beyond it, those that would expire first are dropped.
-- Needs: key, ledger, now, whole.
local OVERHEAD = 120 -- bytes of a result besides its value, about
local SPARE = 3600000 -- ms after which keys whose results have all expired are deleted; result.lua does not return these
local MOST_DROPPED = 100 -- results that a call drops for each one that it stores

local function result_size(value)
  return #value + OVERHEAD
end

-- Drops these results, in this order, until all of them take at most `limit` bytes.
local function drop_results(ids, limit)
  local dropped = {}
  for i, value in ipairs(redis.call("HMGET", key.results, unpack(ids))) do
    if ledger.result_bytes <= limit then break end
    if value then ledger.result_bytes = ledger.result_bytes - result_size(value) end
    dropped[i] = ids[i]
  end
  if #dropped == 0 then return end
  redis.call("HDEL", key.results, unpack(dropped))
  redis.call("ZREM", key.result_times, unpack(dropped))
end

-- Drops results that have expired, at most `most` at a time.
local function drop_expired(most)
  for _ = 1, most do
    local expired = redis.call("ZRANGEBYSCORE", key.result_times, "-inf", whole(now), "LIMIT", 0, MOST_DROPPED)
    if #expired == 0 then return end
    drop_results(expired, -math.huge)
  end
end

-- Drops the results that would expire first while all of them take more than `limit` bytes, `many` at a time.
local function drop_first(many, limit)
  for _ = 1, MOST_DROPPED do
    if ledger.result_bytes <= limit then return end
    local first = redis.call("ZRANGE", key.result_times, 0, many - 1)
    if #first == 0 then return end
    drop_results(first, limit)
  end
end

-- Stores results, each for its `ttls` in milliseconds. A later one with the same id replaces an earlier one. `limit` is in bytes.
-- A result is stored as lines: time of completion, time at which it expires, the value.
local function store_results(ids, ttls, values, limit)
  if redis.call("EXISTS", key.results) == 0 then ledger.result_bytes = 0 end -- all have expired with their keys
  drop_expired(#ids)
  local latest, fields, times = {}, {}, {}
  for i, id in ipairs(ids) do latest[id] = i end
  for i, replaced in ipairs(redis.call("HMGET", key.results, unpack(ids))) do
    local id = ids[i]
    if latest[id] == i then
      local expires = whole(now + ttls[i])
      local text = whole(now) .. "\n" .. expires .. "\n" .. values[i]
      ledger.result_bytes = ledger.result_bytes + result_size(text) - (replaced and result_size(replaced) or 0)
      fields[#fields + 1], fields[#fields + 2] = id, text
      times[#times + 1], times[#times + 2] = expires, id
    end
  end
  redis.call("HSET", key.results, unpack(fields))
  redis.call("ZADD", key.result_times, unpack(times))
  drop_first(#ids, limit)
  local last = redis.call("ZRANGE", key.result_times, -1, -1, "WITHSCORES")[2]
  local left = whole(math.max(0, (tonumber(last) or now) - now) + SPARE)
  redis.call("PEXPIRE", key.results, left)
  redis.call("PEXPIRE", key.result_times, left)
end
