#!lua flags=no-writes
-- Read the counts of a crawl by handler.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    (none)
--
-- Returns a line "counts;name" for each handler, "" if none is counted.
local crawl = KEYS[1]
--- @include "history"
--- @include "migration"
--- @include "crawl"
local refusal = refuse_migration(crawl) or refuse_missing_crawl(crawl)
if refusal then return refusal end
return redis.call("HGET", history_key, HANDLERS) or ""
