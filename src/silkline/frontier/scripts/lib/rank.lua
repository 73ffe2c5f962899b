-- Scores of `ready`: the turn of a host minus its priority times RANK.
-- Needs: nothing.
local RANK = 4398046511104 -- 2^42: room for that many turns inside one priority

-- Returns the priority in a score.
local function priority_of(score)
  return math.ceil(-score / RANK)
end
