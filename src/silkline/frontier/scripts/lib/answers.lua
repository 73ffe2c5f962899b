-- What each host answered of late, in one hash: how often 2xx, 3xx, 4xx, 5xx and nothing, the last status (0 for none), and when
-- it was told last in seconds, packed into sixteen bytes.
-- Needs: key, now.
local MOST_COUNTED = 1000 -- answers.py has the same
local TOLD, KEPT, HEARD = "<HHHHHH", "<HHHHHHI4", 13
local LOOKED_AT = 2

-- What a host answered before, and what it answered now. More than enough is halved: the new counts for more than the old.
local function added(kept, told)
  local two, three, four, five, failed, last = struct.unpack(TOLD, told)
  if kept then
    local a, b, c, d, e = struct.unpack(KEPT, kept)
    two, three, four, five, failed = two + a, three + b, four + c, five + d, failed + e
  end
  while two + three + four + five + failed > MOST_COUNTED do
    two, three, four = math.floor(two / 2), math.floor(three / 2), math.floor(four / 2)
    five, failed = math.floor(five / 2), math.floor(failed / 2)
  end
  return struct.pack(KEPT, two, three, four, five, failed, last, math.floor(now / 1000))
end

-- Forgets up to so many hosts: of each two that are drawn by chance, the one that was not heard of for longest.
local function forget_answers(too_many)
  local drawn = redis.call("HRANDFIELD", key.answers, -LOOKED_AT * too_many, "WITHVALUES")
  local gone = {}
  for first = 1, #drawn, 2 * LOOKED_AT do
    local oldest, since = nil, math.huge
    for i = first, first + 2 * LOOKED_AT - 2, 2 do
      local heard = struct.unpack("<I4", drawn[i + 1], HEARD)
      if heard < since then oldest, since = drawn[i], heard end
    end
    gone[#gone + 1] = oldest
  end
  redis.call("HDEL", key.answers, unpack(gone))
end
