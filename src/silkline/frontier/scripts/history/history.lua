#!lua flags=no-writes
-- Read the last steps of a crawl's history.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, ring (fine or coarse), steps  -  how many, including the current one
--
-- Returns {number of the current step, then the text of each step, the oldest first, "" if nothing is stored}. A text may be of an
-- earlier round of the ring: it begins with the number of its step.
local crawl, clock, ring, steps = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
--- @include "clock"
--- @include "history"
--- @include "migration"
--- @include "crawl"
local refusal = refuse_migration(crawl) or refuse_missing_crawl(crawl)
if refusal then return refusal end
local last, fields = math.floor(now / RINGS[ring].step), {}
for number = last - math.min(steps, RINGS[ring].size) + 1, last do fields[#fields + 1] = step_field(ring, number) end
local reply = { whole(last) }
for i, text in ipairs(redis.call("HMGET", history_key, unpack(fields))) do reply[i + 1] = text or "" end
return reply
