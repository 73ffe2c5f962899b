#!lua flags=no-writes
-- Estimate how many requests could be started now, and how long the oldest host has been waiting for a claim. If there are many
-- hosts, a random sample of them is examined.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, most (hosts to examine)
--
-- Returns {oldest in ms, open hosts, examined hosts, requests that the examined hosts may start now}.
local ledger_key, clock, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "hosts"
--- @include "pace"
local refusal = check_ledger()
if refusal then return refusal end
local ready, due = redis.call("ZCARD", key.ready), redis.call("ZCOUNT", key.waiting, "-inf", now)

local function open_hosts()
  local hosts
  if ready > most then
    hosts = redis.call("ZRANDMEMBER", key.ready, most)
  else
    hosts = redis.call("ZRANGE", key.ready, 0, -1)
    local rest = redis.call("ZRANGEBYSCORE", key.waiting, "-inf", now, "LIMIT", 0, most - ready)
    for _, host in ipairs(rest) do hosts[#hosts + 1] = host end
  end
  return hosts
end

-- Returns the number of waiting requests of a host, at most `enough`.
local function queued(host, enough)
  local total = 0
  for priority in string.gmatch(lanes_of(host) or "0", "%S+") do
    if total < enough then total = total + redis.call("LLEN", queue_key(priority, host)) end
  end
  return math.min(total, enough)
end

local function oldest()
  local turn = oldest_turn()
  local since = turn and time_of_turn(turn) or now
  for _, name in ipairs({ "waiting", "delayed" }) do
    local time = tonumber(redis.call("ZRANGE", key[name], 0, 0, "WITHSCORES")[2])
    if time and time < since then since = time end
  end
  return math.max(0, now - since)
end

if ledger.state ~= "open" then return { "0", 0, 0, 0 } end
local hosts, may_start = open_hosts(), 0
read_standings(hosts)
read_policies(hosts)
for _, host in ipairs(hosts) do
  local leased, spent = standing(host)
  local free = free_starts(host, leased, spent)
  if free > 0 then may_start = may_start + queued(host, free) end
end
return { whole(oldest()), ready + due, #hosts, may_start }
