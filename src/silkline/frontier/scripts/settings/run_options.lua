#!lua flags=allow-oom
-- Store or read the options that a run has set for all workers of a crawl.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    options (JSON; "" only reads)
--
-- Returns the options that are stored now; "" if no run has stored any.
local crawl, options = KEYS[1], ARGV[1]
--- @include "allow_oom"
--- @include "crawl"
local refusal = refuse_missing_crawl(crawl)
if refusal then return refusal end
if options ~= "" then
  allow_oom(crawl)
  redis.call("HSET", crawl, "run", options)
end
return redis.call("HGET", crawl, "run") or ""
