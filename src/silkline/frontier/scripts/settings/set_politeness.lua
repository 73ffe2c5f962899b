#!lua flags=allow-oom
-- Change the default politeness of the crawl on this shard. Hosts are placed again, a bounded number per call.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, delay in ms, concurrency, burst, position ("0" at first)
--
-- Returns the position for the next call, "0" if all hosts are placed. Calls may be repeated.
local ledger_key, clock, delay, concurrency, burst, position = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "hosts"
--- @include "placing"
--- @include "allow_oom"
local refusal = check_ledger()
if refusal then return refusal end
allow_oom(key.ledger)
local lowest = math.min(ledger.pacing or ledger.concurrency, ledger.concurrency) -- of the caps at which hosts may be
redis.call("HSET", key.ledger, "delay", delay, "concurrency", concurrency, "burst", burst)
ledger.delay, ledger.concurrency, ledger.burst = tonumber(delay), tonumber(concurrency), tonumber(burst)

-- Returns the latest time until which a host may wait under the new politeness. Earlier times are not changed.
local function latest(host)
  local its_delay, _, its_burst = policy(host)
  return now + its_delay * its_burst
end

local function place_hosts(cursor)
  -- Until all hosts are placed, a host that frees a place may be at any of the caps that applied meanwhile: see unlease.
  ledger.pacing = lowest
  redis.call("HSET", key.ledger, "pacing", lowest)
  local hosts, following = scan_hosts("HSCAN", key.hosts, cursor)
  for _, host in ipairs(hosts) do
    local leased, spent = standing(host)
    place_again(host, leased, math.min(spent, latest(host)))
  end
  if following == "0" then redis.call("HDEL", key.ledger, "pacing") end
  return next_position("hosts", following, "idle")
end

local function shorten_rests(cursor)
  local hosts, following = scan_hosts("ZSCAN", key.idle, cursor)
  for _, host in ipairs(hosts) do
    local rests = tonumber(redis.call("ZSCORE", key.idle, host))
    redis.call("ZADD", key.idle, math.min(rests, latest(host)), host)
  end
  return next_position("idle", following)
end

local name, cursor = read_position(position)
position = name == "idle" and shorten_rests(cursor) or place_hosts(cursor)
finish()
return position
