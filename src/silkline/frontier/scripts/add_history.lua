#!lua flags=allow-oom
-- Add to the history of a crawl: what a worker did since it told last, and how the crawl stands if it looked.
-- A step takes the place of the one before it in the ring, so that a history never grows.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, slot, call, counts, levels ("" keeps what was told before); numbers separated by spaces
--
-- Returns the time in ms.
local crawl, clock, slot, call, counts, levels = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local root = crawl
--- @include "clock"
--- @include "once"
--- @include "history"
if redis.call("EXISTS", crawl) == 0 then return redis.error_reply("NOCRAWL no such crawl is stored here") end
local answered = replay()
if answered then return answered end

-- The numbers of a text added to those of another.
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

redis.call("HDEL", history_key, "") -- a first write that frees memory lets old servers go on when memory is short
for name, ring in pairs(RINGS) do
  local number = math.floor(now / ring.step)
  local field = step_field(name, number)
  local kept = redis.call("HGET", history_key, field) or ""
  local step, told, counted = string.match(kept, "^(%d+);([^;]*);([^;]*)$")
  if step ~= whole(number) then told, counted = "", "" end
  local stands = levels ~= "" and levels or told
  redis.call("HSET", history_key, field, table.concat({ whole(number), stands, add(counted, counts) }, ";"))
end
remember(whole(now))
return whole(now)
