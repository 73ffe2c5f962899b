#!lua flags=allow-oom
-- Count what the seen filter holds, a bounded number of buckets per call, and correct the counter if it differs.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    repair (1 or ""), bucket to go on with ("" at first), counted so far, moves when it began ("" at first)
--
-- Returns {where to go on, "" at the end, or "moved" when requests moved between two calls; counted, moves, the counter}. A
-- bloom filter cannot be counted; its counter is taken as it is.
local root, repair, position, counted, began = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
--- @include "keys"
--- @include "ledger"
--- @include "buckets"
local refusal = read_ledger()
if refusal then return refusal end
local MOST = 10000
local moves = whole(ledger.moves)
if ledger.seen == "bloom" then return { "", ledger.seen_count, moves, ledger.seen_count } end
if began ~= "" and began ~= moves then return { "moved", 0, moves, 0 } end
local first = tonumber(position) or ledger.buckets
local last = math.min(first + MOST, ledger.buckets * 2) - 1
for bucket = first, last do counted = counted + redis.call("SCARD", bucket_key(bucket)) end
local was = ledger.seen_count
if last < ledger.buckets * 2 - 1 then return { whole(last + 1), counted, moves, was } end
if repair == "1" and counted ~= was then
  ledger.seen_count = counted
  write_ledger()
end
return { "", counted, moves, was }
