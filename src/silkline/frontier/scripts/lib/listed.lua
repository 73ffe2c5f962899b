-- Dead letters by host: a sorted set of "host, time of burial, id", all of one score, so in the order of these words.
-- Every letter is listed, unless an older version buried it. Then there are more letters than are listed, and whoever looks
-- for those of a host looks at all of them, until fsck has listed them.
-- Needs: key.
local function listed_as(host, buried, id)
  return host .. "\n" .. string.format("%014d", buried) .. " " .. id
end

local function all_are_listed()
  return redis.call("ZCARD", key.dead_by_host) == redis.call("ZCARD", key.buried)
end

-- Of the letters of a host that were buried in a time (ms, or -inf and +inf): how many come after them, how many they are.
local function listed_of(host, oldest, newest)
  local from, past = host .. "\n", host .. "\11" -- the character after the newline: past all of its letters
  if newest ~= "+inf" then past = from .. string.format("%014d", newest + 1) end
  if oldest ~= "-inf" then from = from .. string.format("%014d", oldest) end
  return redis.call("ZLEXCOUNT", key.dead_by_host, "[" .. past, "+"),
    redis.call("ZLEXCOUNT", key.dead_by_host, "[" .. from, "(" .. past)
end

-- The same of all hosts.
local function buried_in(oldest, newest)
  local after = newest == "+inf" and 0 or redis.call("ZCOUNT", key.buried, "(" .. newest, "+inf")
  return after, redis.call("ZCOUNT", key.buried, oldest, newest)
end

-- The ids of up to `most` letters after the first so many, newest first; those of one host, if one is given and all are
-- listed, else those of all. By rank, as a LIMIT walks over all that it skips.
local function ids_of(host, oldest, newest, skip, most)
  local sorted_key, find = key.buried, buried_in
  if host ~= "" and all_are_listed() then
    sorted_key, find = key.dead_by_host, function(...) return listed_of(host, ...) end
  end
  local after, count = find(oldest, newest)
  if count <= skip then return {} end
  local found = redis.call("ZREVRANGE", sorted_key, after + skip, after + math.min(count, skip + most) - 1)
  for i, text in ipairs(found) do found[i] = string.match(text, "%d+$") end
  return found
end
