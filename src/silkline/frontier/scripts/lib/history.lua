-- The history of a crawl: two ring buffers in one hash, the last hour in steps of 10 s and the last day in steps of 5 min.
-- A field is "number of the step;levels;counts"; levels and counts are numbers, separated by spaces. `total` has all counts since the
-- crawl began, and `handlers` those of each handler: a line "counts;name" for each, at most MOST_HANDLERS and one for all others.
-- Needs: crawl.
local history_key = crawl .. ":history"
local RINGS = { fine = { step = 10000, size = 360 }, coarse = { step = 300000, size = 288 } } -- history.py has the same
local TOTAL, HANDLERS = "total", "handlers"

--- @include "whole"

local function step_field(name, number)
  return name .. ":" .. number % RINGS[name].size
end
