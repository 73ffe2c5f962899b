#!lua flags=allow-oom
-- Take a place of a lock or semaphore if one is free. A place whose holder did not renew it in time is free. A holder that has a place
-- keeps it.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, field (kind:name), holder, ttl_ms, places
--
-- Returns {fencing token, ms until the place expires}, or {"", ms until the first place expires} if all are taken.
local crawl, clock, field, holder, ttl_ms, places =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
--- @include "clock"
--- @include "migration"
--- @include "crawl"
--- @include "allow_oom"
--- @include "holders"
local refusal = refuse_migration(crawl) or refuse_missing_crawl(crawl)
if refusal then return refusal end
local holders, is_changed = read_holders(field)
local first = math.huge
for _, one in ipairs(holders) do
  if one.name == holder then return { one.token, whole(one.expires - now) } end
  first = math.min(first, one.expires)
end
allow_oom(locks_key)
if #holders >= places then
  if is_changed then store_holders(field, holders) end
  return { "", whole(first - now) }
end

-- The time is part of the token, so that tokens also grow if the server has lost its last writes.
local token = whole(math.max((tonumber(redis.call("HGET", locks_key, "token")) or 0) + 1, now))
redis.call("HSET", locks_key, "token", token)
holders[#holders + 1] = { name = holder, token = token, ttl = ttl_ms, expires = now + ttl_ms }
store_holders(field, holders)
return { token, whole(ttl_ms) }
