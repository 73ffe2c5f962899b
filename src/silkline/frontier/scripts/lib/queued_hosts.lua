-- Goes through the hosts that may have requests in their queues, page by page. A host counts in the first of these keys that has it.
-- Needs: key.
local PLACES = { "ready", "waiting", "hosts", "policies" }

-- Returns whether a host is in an earlier place.
local function is_in_earlier_place(host, place)
  for _, earlier in ipairs(PLACES) do
    if earlier == place then return false end
    local known = earlier == "hosts" and redis.call("HEXISTS", key.hosts, host) == 1
    if known or earlier ~= "hosts" and redis.call("ZSCORE", key[earlier], host) then return true end
  end
end

-- Returns about `size` hosts of a place and the next cursor, nil at the end.
local function page_of(place, cursor, size)
  if place == "ready" or place == "waiting" then
    local start = tonumber(cursor)
    local hosts = redis.call("ZRANGE", key[place], start, start + size - 1)
    return hosts, #hosts == size and whole(start + size) or nil
  end
  local page, hosts = redis.call("HSCAN", key[place], cursor, "COUNT", size), {}
  for i = 1, #page[2], 2 do hosts[#hosts + 1] = page[2][i] end
  return hosts, page[1] ~= "0" and page[1] or nil
end
