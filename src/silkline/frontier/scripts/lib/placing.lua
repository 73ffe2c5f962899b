-- Places hosts again after the limits of the crawl have changed, a bounded number per call. A position is "0" at first and at the end;
-- in between it is the name of the scanned key and a cursor.
-- Needs: key, now, hosts.
--- @include "pace"
local BATCH = 500

-- Returns whether the host is ready, or will be at the next claim.
local function is_due(host)
  if redis.call("ZSCORE", key.ready, host) then return true end
  local opens = redis.call("ZSCORE", key.waiting, host)
  return opens and tonumber(opens) <= now
end

-- Places a host. One that is ready and may start a request keeps its turn.
local function place_again(host, leased, spent)
  if is_due(host) and free_starts(host, leased, spent) >= 1 then return set_standing(host, leased, spent) end
  place(host, leased, spent, top_lane(host))
end

-- Splits a position into the name of the scanned key and the cursor.
local function read_position(position)
  local name, cursor = string.match(position, "^(%a+) (%d+)$")
  return name or "hosts", cursor or position
end

-- Returns the next position; `after` is the key to scan after this one, if any.
local function next_position(name, cursor, after)
  if cursor ~= "0" then return name .. " " .. cursor end
  return after and after .. " 0" or "0"
end

-- Scans some hosts of a hash or a sorted set. Returns their sorted names and the next cursor.
local function scan_hosts(scan, name, cursor)
  local page, names = redis.call(scan, name, cursor, "COUNT", BATCH), {}
  for i = 1, #page[2], 2 do names[#names + 1] = page[2][i] end
  table.sort(names)
  return names, page[1]
end
