#!lua flags=allow-oom
-- Count the fingerprints in the seen filter, a bounded number of buckets per call, and correct the counter if it differs.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    repair (1 or ""), next bucket ("" at first), counted so far, moves at the start ("" at first)
--
-- Returns {next bucket, "" at the end, or "moved" if requests moved between two calls; counted, moves, the counter}. A bloom filter
-- cannot be counted, so its counter is not checked.
local ledger_key, repair, position, counted, began = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
--- @include "keys"
--- @include "ledger"
--- @include "buckets"
local refusal = check_ledger()
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
