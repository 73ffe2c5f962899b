#!lua flags=no-writes
-- Describe hosts: the ones named, or those that come first: ready, waiting, under way, with a policy of their own.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, most, hosts…
--
-- Returns per host {host, place, opens_in, queued, leased, delay, concurrency, burst, blocked_until, paused, pages,
-- slowed_from, crawl_delay, answers}; place is ready, waiting, busy (at its cap), paused, resting or unknown; times are in ms;
-- slowed_from is its delay without a slow-down, "" when it has none; crawl_delay is what robots.txt asks for, or "";
-- answers is what it answered of late, packed as it is kept, or "".
local root, clock, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
--- @include "steady"
--- @include "keys"
--- @include "ledger"
--- @include "hosts"
local refusal = read_ledger()
if refusal then return refusal end
local names, known = {}, {}

local function name(host)
  if known[host] or #names >= most then return end
  known[host] = true
  names[#names + 1] = host
end

local function name_all()
  for i = 3, #ARGV do name(ARGV[i]) end
  if #ARGV > 2 then return end
  for _, host in ipairs(redis.call("ZRANGE", key.ready, 0, most - 1)) do name(host) end
  for _, host in ipairs(redis.call("ZRANGE", key.waiting, 0, most - 1)) do name(host) end
  for _, from in ipairs({ key.hosts, key.policies }) do
    local found = redis.call("HSCAN", from, 0, "COUNT", most)[2]
    for i = 1, #found, 2 do name(found[i]) end
  end
end

local function queued(host)
  local total = 0
  for priority in string.gmatch(lanes_of(host) or "0", "%S+") do
    total = total + redis.call("LLEN", queue_key(priority, host))
  end
  return total
end

local function where(host, pending, leased, spent, paused)
  if paused then return "paused", 0 end
  if redis.call("ZSCORE", key.ready, host) then return "ready", 0 end
  local opens = redis.call("ZSCORE", key.waiting, host)
  if opens then return "waiting", math.max(0, tonumber(opens) - now) end
  if pending > 0 or leased > 0 then return "busy", 0 end
  local rests = tonumber(redis.call("ZSCORE", key.idle, host) or 0)
  if rests > now then return "resting", rests - now end
  return "unknown", 0
end

name_all()
local rows = {}
for i, host in ipairs(names) do
  local delay, concurrency, burst, blocked, paused, base = policy(host)
  local crawl_delay = own_policy(host)[CRAWL_DELAY]
  local pending, leased, spent = queued(host), standing(host)
  local place_word, opens_in = where(host, pending, leased, spent, paused)
  local pages = tonumber(redis.call("HGET", key.pages, host) or 0)
  rows[i] = {
    host, place_word, whole(opens_in), pending, leased, whole(delay), concurrency, burst, whole(blocked > now and blocked or 0),
    paused and 1 or 0, pages, delay > base and whole(base) or "", crawl_delay == "-" and "" or crawl_delay,
    redis.call("HGET", key.answers, host) or "",
  }
end
return rows
