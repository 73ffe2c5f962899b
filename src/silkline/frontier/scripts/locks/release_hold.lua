#!lua flags=allow-oom
-- Give a place of a lock or semaphore back.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, field (kind:name), holder
--
-- Returns 1, or 0 if the holder has no place: its time is over, or it gave the place back before.
local crawl, clock, field, holder = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "clock"
--- @include "migration"
--- @include "crawl"
--- @include "allow_oom"
--- @include "holders"
local refusal = refuse_migration(crawl) or refuse_missing_crawl(crawl)
if refusal then return refusal end
local holders = read_holders(field)
for i, one in ipairs(holders) do
  if one.name == holder then
    table.remove(holders, i)
    allow_oom(locks_key)
    store_holders(field, holders)
    return 1
  end
end
return 0
