-- The history of a crawl: two rings of steps in one hash, the last hour in steps of 10 s, the last day in steps of 5 min.
-- A field holds the number of its step, how the crawl stood, and what was counted: numbers, separated by spaces.
-- Needs: crawl.
local history_key = crawl .. ":history"
local RINGS = { fine = { step = 10000, size = 360 }, coarse = { step = 300000, size = 288 } } -- history.py has the same

-- A whole number as text; plain concatenation would round it to 14 digits.
local function whole(number)
  return string.format("%d", number)
end

local function step_field(name, number)
  return name .. ":" .. number % RINGS[name].size
end
