#!lua flags=allow-oom
-- Erase a crawl's settings, and with them all that was granted and noted for it, who works on it, what operators did,
-- and its history.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    (none)
--
-- Returns 1 when there were any, else 0.
local crawl = KEYS[1]
redis.call("UNLINK", crawl .. ":workers", crawl .. ":infos", crawl .. ":orders", crawl .. ":history", crawl .. ":audit")
return redis.call("UNLINK", crawl)
