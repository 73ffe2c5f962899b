-- Marks: the time of about one turn per second, to estimate since when a host is ready. The time of a mark is exact for its own turn,
-- and up to one step too early for the turns before the next mark. The steps grow to a hundredth of the waiting time of the oldest
-- ready host, so that there are never many marks.
-- Needs: key, ledger, now, whole.
--- @include "rank"
local LEAST_STEP, PARTS, BANDS = 1000, 100, 8

-- Returns the lowest turn of the ready hosts, among the first ones of the highest priorities.
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

-- Returns the time of a turn, and the turn of the mark from which it is known.
local function time_of_turn(turn)
  local mark = redis.call("ZREVRANGEBYSCORE", key.turns, whole(turn), "-inf", "WITHSCORES", "LIMIT", 0, 1)
  return tonumber(mark[1]), tonumber(mark[2])
end

-- Stores a mark for the first turn of this call if one is due. Deletes marks that are older than the oldest ready host.
local function mark_turns(first, last)
  if first > last or now < ledger.mark_at then return end
  local oldest = oldest_turn() or last
  local since, mark = time_of_turn(oldest)
  if mark then redis.call("ZREMRANGEBYSCORE", key.turns, "-inf", "(" .. whole(mark)) end
  redis.call("ZADD", key.turns, whole(first), whole(now))
  ledger.mark_at = now + math.max(LEAST_STEP, math.floor((now - (since or now)) / PARTS))
end

-- Deletes all marks if no host is ready.
local function delete_turns()
  if ledger.mark_at == 0 or redis.call("EXISTS", key.ready) == 1 then return end
  redis.call("UNLINK", key.turns)
  ledger.mark_at = 0
end
