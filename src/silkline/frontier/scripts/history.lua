#!lua flags=no-writes
-- Read the last steps of a crawl's history.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, ring (fine or coarse), steps  -  how many, the one under way included
--
-- Returns {number of the step under way, then of each step, the oldest first, what is kept in its place, or ""}.
local crawl, clock, ring, steps = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
--- @include "clock"
--- @include "history"
if redis.call("EXISTS", crawl) == 0 then return redis.error_reply("NOCRAWL no such crawl is stored here") end
local last, fields = math.floor(now / RINGS[ring].step), {}
for number = last - math.min(steps, RINGS[ring].size) + 1, last do fields[#fields + 1] = step_field(ring, number) end
local reply = { whole(last) }
for i, kept in ipairs(redis.call("HMGET", history_key, unpack(fields))) do reply[i + 1] = kept or "" end
return reply
