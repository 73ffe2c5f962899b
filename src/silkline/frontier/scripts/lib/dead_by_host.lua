-- The index of dead letters by host: a sorted set of "host, burial time, id" with equal scores, so in the order of this text.
-- Letters that an earlier version buried are not in the index. Then a search for one host reads all letters, until fsck has added them.
-- Needs: key.
local function index_member(host, buried, id)
  return host .. "\n" .. string.format("%014d", buried) .. " " .. id
end

local function index_is_complete()
  return redis.call("ZCARD", key.dead_by_host) == redis.call("ZCARD", key.buried)
end

-- For the letters of a host that were buried in a period (ms, or -inf and +inf): returns how many follow in the index, and their number.
local function count_of_host(host, oldest, newest)
  local from, past = host .. "\n", host .. "\11" -- \11 follows the newline: this sorts after all letters of the host
  if newest ~= "+inf" then past = from .. string.format("%014d", newest + 1) end
  if oldest ~= "-inf" then from = from .. string.format("%014d", oldest) end
  return redis.call("ZLEXCOUNT", key.dead_by_host, "[" .. past, "+"),
    redis.call("ZLEXCOUNT", key.dead_by_host, "[" .. from, "(" .. past)
end

-- The same for all hosts, in `buried`.
local function count_of_all(oldest, newest)
  local after = newest == "+inf" and 0 or redis.call("ZCOUNT", key.buried, "(" .. newest, "+inf")
  return after, redis.call("ZCOUNT", key.buried, oldest, newest)
end

-- Returns the ids of up to `most` letters after the first `skip`, newest first: letters of the host if one is given and the index is
-- complete, else all letters. Uses ranks, because LIMIT takes time for every member that it skips.
local function ids_of(host, oldest, newest, skip, most)
  local sorted_key, count_between = key.buried, count_of_all
  if host ~= "" and index_is_complete() then
    sorted_key, count_between = key.dead_by_host, function(...) return count_of_host(host, ...) end
  end
  local after, count = count_between(oldest, newest)
  if count <= skip then return {} end
  local found = redis.call("ZREVRANGE", sorted_key, after + skip, after + math.min(count, skip + most) - 1)
  for i, text in ipairs(found) do found[i] = string.match(text, "%d+$") end
  return found
end
