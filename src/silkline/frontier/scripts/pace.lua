#!lua flags=allow-oom
-- Give the crawl another pace on this shard. Hosts take their places by it, a bounded number per call.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, delay in ms, concurrency, burst, cursor ("0" at first)
--
-- Returns the cursor of the next call, "0" when all hosts are in their places. Calls may be repeated.
local root, clock, delay, concurrency, burst, cursor = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
--- @include "steady"
--- @include "keys"
--- @include "ledger"
--- @include "hosts"
local refusal = read_ledger()
if refusal then return refusal end
local BATCH = 500
redis.call("HDEL", key.ledger, "") -- a first write that frees memory lets old servers go on when memory is short
-- Until all hosts have their places, one that frees a place may be at any of the caps that held meanwhile: see unlease.
local pacing = math.min(ledger.pacing or ledger.concurrency, ledger.concurrency)
redis.call("HSET", key.ledger, "delay", delay, "concurrency", concurrency, "burst", burst, "pacing", pacing)
ledger.pacing = pacing
ledger.delay, ledger.concurrency, ledger.burst = tonumber(delay), tonumber(concurrency), tonumber(burst)

-- When a rest that began under the old pace ends at the latest. One that is shorter than the new delay stays as it is.
local function latest(host)
  local its_delay, _, its_burst = policy(host)
  return now + its_delay * its_burst
end

local function shorten_rests()
  local limit = now + ledger.delay * ledger.burst
  for _, host in ipairs(redis.call("ZRANGEBYSCORE", key.idle, "(" .. whole(limit), "+inf", "LIMIT", 0, BATCH)) do
    local rests = tonumber(redis.call("ZSCORE", key.idle, host))
    redis.call("ZADD", key.idle, math.min(rests, latest(host)), host)
  end
end

shorten_rests()
local page = redis.call("HSCAN", key.hosts, cursor, "COUNT", BATCH)
for i = 1, #page[2], 2 do
  local host = page[2][i]
  local leased, spent = standing(host)
  if not redis.call("ZSCORE", key.ready, host) then -- who is ready keeps its turn; a claim sees whether it is at its cap
    place(host, leased, math.min(spent, latest(host)), top_lane(host))
  end
end
if page[1] == "0" then redis.call("HDEL", key.ledger, "pacing") end
finish()
return page[1]
