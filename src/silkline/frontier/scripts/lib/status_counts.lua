-- Recent status counts of each host, in one hash. Twenty bytes each: responses with 2xx, 3xx, 4xx, 5xx and without a status, the last
-- status (0 for none), the time of the last update in seconds, and the CPU time of workers in tenths of a millisecond. Earlier versions
-- stored and sent them without the CPU time.
-- Needs: key, now.
local MOST_COUNTED = 1000 -- hosts.py has the same
local SENT, STORED, UPDATED_AT = "<HHHHHH", "<HHHHHHI4I4", 13
local MOST_CPU = 2 ^ 31
local DRAWN = 2

-- Adds the sent counts of a host to the stored ones. Above MOST_COUNTED all are halved, so that recent responses weigh more.
local function add_counts(stored, sent)
  local two, three, four, five, failed, last = struct.unpack(SENT, sent)
  local cpu = #sent >= 16 and struct.unpack("<I4", sent, 13) or 0
  if stored then
    local a, b, c, d, e = struct.unpack(SENT, stored)
    two, three, four, five, failed = two + a, three + b, four + c, five + d, failed + e
    cpu = cpu + (#stored >= 20 and struct.unpack("<I4", stored, 17) or 0)
  end
  while two + three + four + five + failed > MOST_COUNTED do
    two, three, four = math.floor(two / 2), math.floor(three / 2), math.floor(four / 2)
    five, failed, cpu = math.floor(five / 2), math.floor(failed / 2), math.floor(cpu / 2)
  end
  return struct.pack(STORED, two, three, four, five, failed, last, math.floor(now / 1000), math.min(cpu, MOST_CPU))
end

-- Deletes the counts of up to `too_many` hosts: of two random hosts each, those with the older update.
local function delete_old_counts(too_many)
  local drawn = redis.call("HRANDFIELD", key.answers, -DRAWN * too_many, "WITHVALUES")
  local gone = {}
  for first = 1, #drawn, 2 * DRAWN do
    local oldest, since = nil, math.huge
    for i = first, first + 2 * DRAWN - 2, 2 do
      local updated = struct.unpack("<I4", drawn[i + 1], UPDATED_AT)
      if updated < since then oldest, since = drawn[i], updated end
    end
    gone[#gone + 1] = oldest
  end
  redis.call("HDEL", key.answers, unpack(gone))
end
