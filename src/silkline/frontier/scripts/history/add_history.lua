#!lua flags=allow-oom
-- Add to the history of a crawl: the counts of a worker since its last report, and the levels of the crawl if it read them. A new
-- step replaces the oldest one of the ring.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, slot, call, counts, levels ("" keeps the stored ones), handlers (a line "counts;name" for each handler with news);
--         numbers separated by spaces
--
-- Returns the time in ms.
local crawl, clock, slot, call, counts, levels = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local handlers = ARGV[6]
local root = crawl
--- @include "clock"
--- @include "idempotency"
--- @include "history"
--- @include "migration"
--- @include "crawl"
--- @include "allow_oom"
local refusal = refuse_migration(crawl) or refuse_missing_crawl(crawl)
if refusal then return refusal end
local stored = replay()
if stored then return stored end

-- Adds two lists of numbers, separated by spaces.
local function add(text, more)
  local sums = {}
  for word in string.gmatch(text, "%S+") do sums[#sums + 1] = tonumber(word) end
  local i = 0
  for word in string.gmatch(more, "%S+") do
    i = i + 1
    sums[i] = (sums[i] or 0) + tonumber(word)
  end
  for at, sum in ipairs(sums) do sums[at] = whole(sum) end
  return table.concat(sums, " ")
end

local MOST_HANDLERS, OTHERS = 50, "(others)" -- history.py has the same

-- Adds two texts with a line "counts;name" for each handler. Handlers beyond the limit are counted together.
local function add_by_handler(text, more)
  local names, sums = {}, {}
  for numbers, name in string.gmatch(text .. more, "([%d ]*);([^\n]*)\n") do
    if not sums[name] and #names >= MOST_HANDLERS then name = OTHERS end
    if not sums[name] then
      names[#names + 1] = name
      sums[name] = ""
    end
    sums[name] = add(sums[name], numbers)
  end
  for i, name in ipairs(names) do names[i] = sums[name] .. ";" .. name .. "\n" end
  return table.concat(names)
end

allow_oom(history_key)
for name, ring in pairs(RINGS) do
  local number = math.floor(now / ring.step)
  local field = step_field(name, number)
  local text = redis.call("HGET", history_key, field) or ""
  local step, old_levels, counted = string.match(text, "^(%d+);([^;]*);([^;]*)$")
  if step ~= whole(number) then old_levels, counted = "", "" end
  local new_levels = levels ~= "" and levels or old_levels
  redis.call("HSET", history_key, field, table.concat({ whole(number), new_levels, add(counted, counts) }, ";"))
end
redis.call("HSET", history_key, TOTAL, add(redis.call("HGET", history_key, TOTAL) or "", counts))
if handlers ~= "" then
  redis.call("HSET", history_key, HANDLERS, add_by_handler(redis.call("HGET", history_key, HANDLERS) or "", handlers))
end
remember(whole(now))
return whole(now)
