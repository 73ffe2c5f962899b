-- What each host answered of late, in one hash: how often 2xx, 3xx, 4xx, 5xx and nothing, the last status (0 for none), and when
-- it was told last in seconds, packed into sixteen bytes.
-- Needs: key, now.
local MOST_COUNTED = 1000 -- answers.py has the same
local TOLD, KEPT = "<HHHHHH", "<HHHHHHI4"
local LOOKED_AT = 3 -- at so many hosts for each one that has to go

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

-- Forgets so many hosts: of some that are looked at by chance, those that were not heard of for longest.
local function forget_answers(too_many)
  local drawn, met = redis.call("HRANDFIELD", key.answers, too_many * LOOKED_AT, "WITHVALUES"), {}
  for i = 1, #drawn, 2 do met[#met + 1] = { drawn[i], select(7, struct.unpack(KEPT, drawn[i + 1])) } end
  table.sort(met, function(one, other) return one[2] < other[2] end)
  local gone = {}
  for i = 1, math.min(too_many, #met) do gone[i] = met[i][1] end
  if #gone > 0 then redis.call("HDEL", key.answers, unpack(gone)) end
end
