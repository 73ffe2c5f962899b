#!lua flags=allow-oom
-- Delete the hash of a crawl (settings, page grants, overflow counts), its workers, its audit log, its history, its locks, its
-- sessions and what is known of its proxies.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    (none)
--
-- Returns 1 if the hash existed, else 0.
local crawl = KEYS[1]
--- @include "migration"
local refusal = refuse_migration(crawl)
if refusal then return refusal end
redis.call("UNLINK", crawl .. ":workers", crawl .. ":infos", crawl .. ":orders", crawl .. ":history", crawl .. ":audit")
redis.call("UNLINK", crawl .. ":locks", crawl .. ":lock_ends", crawl .. ":proxies", crawl .. ":proxy_changes")
redis.call("UNLINK", crawl .. ":proxy_tiers")
redis.call("UNLINK", crawl .. ":sessions", crawl .. ":session_ends")
return redis.call("UNLINK", crawl)
