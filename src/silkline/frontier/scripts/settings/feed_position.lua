#!lua flags=allow-oom
-- Store or read how far a feed was read. A reader that has lost the feed to another one stores nothing.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    feed, token (the fencing token of the reader), position ("" only reads)
--
-- Returns the position that is stored now; "" if there is none.
local crawl, feed, token, position = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "allow_oom"
--- @include "crawl"
local refusal = refuse_missing_crawl(crawl)
if refusal then return refusal end
local field = "feed:" .. feed
local last, stored = string.match(redis.call("HGET", crawl, field) or "0 ", "^(%d+) (.*)$")
if position ~= "" and tonumber(token) >= tonumber(last) then
  allow_oom(crawl)
  redis.call("HSET", crawl, field, token .. " " .. position)
  stored = position
end
return stored
