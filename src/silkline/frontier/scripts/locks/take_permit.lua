#!lua flags=allow-oom
-- Take a permit of a rate limiter, unless as many as the burst were taken and not yet restored. One is restored per interval. This is
-- GCRA, with the used permits and the time of the last one as its state.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, slot, call, field (kind:name), interval (ms, may have a fraction), burst
--
-- Returns 0 if a permit was taken, else the ms until one is restored.
local crawl, clock, slot, call, field, interval, burst =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local root = crawl
local ROUNDING_MS = 1e-6
--- @include "clock"
--- @include "idempotency"
--- @include "migration"
--- @include "crawl"
--- @include "allow_oom"
--- @include "holders"
local refusal = refuse_migration(crawl) or refuse_missing_crawl(crawl)
if refusal then return refusal end
if replay() then return 0 end

local used, at = string.match(redis.call("HGET", locks_key, field) or "", "^(%S+) (%d+)$")
used, at = tonumber(used) or 0, tonumber(at) or now
local is_behind = now < at -- the clock was set back: time counts from now
used = math.max(0, used - math.max(0, now - at) / interval)

local function store(permits)
  allow_oom(locks_key)
  store_state(field, string.format("%.17g", permits) .. " " .. whole(now), now + permits * interval)
end

local wait = (used + 1 - burst) * interval - ROUNDING_MS
if wait > 0 then
  if is_behind then store(used) end
  return math.ceil(wait)
end
store(used + 1)
remember("0")
return 0
