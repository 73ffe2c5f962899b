#!lua flags=allow-oom
-- Keep a place of a lock or semaphore for its holder, unless its time is over.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, field (kind:name), holder, ttl_ms
--
-- Returns 1, or 0 if the holder has no place.
local crawl, clock, field, holder, ttl_ms = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
--- @include "clock"
--- @include "migration"
--- @include "crawl"
--- @include "allow_oom"
--- @include "holders"
local refusal = refuse_migration(crawl) or refuse_missing_crawl(crawl)
if refusal then return refusal end
local holders = read_holders(field)
for _, one in ipairs(holders) do
  if one.name == holder then
    one.ttl, one.expires = ttl_ms, now + ttl_ms
    allow_oom(locks_key)
    store_holders(field, holders)
    return 1
  end
end
return 0
