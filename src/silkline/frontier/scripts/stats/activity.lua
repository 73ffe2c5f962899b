#!lua flags=no-writes
-- Return who works on a crawl and what was done recently, for `status`.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, fine_steps, coarse_steps  -  of the two rings of the history, including the current ones
--
-- Returns {live workers, those of them that an operator has ordered to be quiet or to stop, workers that were lost in the last hour, all
-- counts since the crawl began (or ""), number of the current fine step, then the text of each fine and each coarse step, the oldest
-- first, as `history` does; and last the alerts as they are stored, "" if there are none}.
local crawl, clock, fine_steps, coarse_steps = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
--- @include "clock"
--- @include "workers"
--- @include "history"
--- @include "migration"
--- @include "crawl"
local refusal = refuse_migration(crawl) or refuse_missing_crawl(crawl)
if refusal then return refusal end
local MOST = 1000 -- orders that are read
local HOUR_MS = 3600000
local alive_since = "(" .. whole(now)

local function live_with_orders()
  if redis.call("EXISTS", orders_key) == 0 then return 0 end
  local names = redis.call("ZRANGEBYSCORE", workers_key, alive_since, "+inf", "LIMIT", 0, MOST)
  local count = 0
  for _, order in ipairs(#names > 0 and redis.call("HMGET", orders_key, unpack(names)) or {}) do
    if order then count = count + 1 end
  end
  return count
end

local fields = { TOTAL }
local function add_steps(name, steps)
  local last = math.floor(now / RINGS[name].step)
  for number = last - steps + 1, last do fields[#fields + 1] = step_field(name, number) end
  return last
end

local last = add_steps("fine", fine_steps)
add_steps("coarse", coarse_steps)
local stored = redis.call("HMGET", history_key, unpack(fields))
local lost = redis.call("ZCOUNT", workers_key, "(" .. whole(now - HOUR_MS), whole(now))
local reply = { redis.call("ZCOUNT", workers_key, alive_since, "+inf"), live_with_orders(), lost, stored[1] or "", whole(last) }
for i = 2, #fields do reply[#reply + 1] = stored[i] or "" end
reply[#reply + 1] = string.match(redis.call("HGET", crawl, "feed:alerts") or "", "^%d+ (.*)$") or ""
return reply
