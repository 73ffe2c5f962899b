-- Marks: at what time which turn was given, about once a second, so that it can be told since when a host is in line.
-- A mark's time is exact for its own turn, and too early by one step for those that came before the next mark. The steps
-- grow with the age of the oldest host in line, to a hundredth of it, so that there are never many marks.
-- Needs: key, ledger, now, whole.
local RANK = 4398046511104 -- 2^42: room for that many turns inside one priority
local LEAST_STEP, PARTS, BANDS = 1000, 100, 8

-- The lowest turn of the hosts in line: the first ones of the highest priorities are looked at.
local function oldest_turn()
  local oldest, from = nil, "-inf"
  for _ = 1, BANDS do
    local score = tonumber(redis.call("ZRANGEBYSCORE", key.ready, from, "+inf", "WITHSCORES", "LIMIT", 0, 1)[2])
    if not score then break end
    local band = math.floor(score / RANK)
    local turn = score - band * RANK
    if not oldest or turn < oldest then oldest = turn end
    from = whole((band + 1) * RANK)
  end
  return oldest
end

-- When a turn was given, and the turn of the mark that tells.
local function given_at(turn)
  local mark = redis.call("ZREVRANGEBYSCORE", key.turns, whole(turn), "-inf", "WITHSCORES", "LIMIT", 0, 1)
  return tonumber(mark[1]), tonumber(mark[2])
end

-- Marks the first turn that this call gave, if it is time to; marks older than the oldest host in line are of no use.
local function mark_turns(first, last)
  if first > last or now < ledger.mark_at then return end
  local oldest = oldest_turn() or last
  local since, mark = given_at(oldest)
  if mark then redis.call("ZREMRANGEBYSCORE", key.turns, "-inf", "(" .. whole(mark)) end
  redis.call("ZADD", key.turns, whole(first), whole(now))
  ledger.mark_at = now + math.max(LEAST_STEP, math.floor((now - (since or now)) / PARTS))
end

-- Nobody is in line any more.
local function forget_turns()
  if ledger.mark_at == 0 or redis.call("EXISTS", key.ready) == 1 then return end
  redis.call("UNLINK", key.turns)
  ledger.mark_at = 0
end
