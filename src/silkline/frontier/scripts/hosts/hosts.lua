#!lua flags=no-writes
-- Describe hosts: the ones named, or else the first ones that are ready, waiting, in progress, or have their own policy.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, most, hosts…
--
-- Returns for each host {host, place, opens_in, queued, leased, delay, concurrency, burst, blocked_until, paused, pages,
-- slowed_from, crawl_delay, answers, has_share}; place is ready, waiting, busy (at its cap), paused, resting or unknown; times are in ms;
-- slowed_from is its delay without a slow-down, "" if it is not slowed; crawl_delay is that of robots.txt, or ""; answers are its
-- status counts, packed as they are stored, or ""; has_share is 1 if the host has reached its share of the capacity.
local ledger_key, clock, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "hosts"
local refusal = check_ledger()
if refusal then return refusal end
--- @include "share"
local room = ledger.capacity - ledger.queued - redis.call("ZCARD", key.delayed)
local names, added = {}, {}

local function add(host)
  if added[host] or #names >= most then return end
  added[host] = true
  names[#names + 1] = host
end

-- Returns whether the host has its own policy, and it differs from the crawl's now.
local function has_own_policy(host)
  local words, delay, _, _, blocked, _, base = own_policy(host), policy(host)
  if blocked <= now then words[BLOCKED] = "-" end
  if delay <= base then words[SLOWED], words[SINCE] = "-", "-" end
  return not is_default(words)
end

local function add_all()
  for i = 3, #ARGV do add(ARGV[i]) end
  if #ARGV > 2 then return end
  for _, host in ipairs(redis.call("ZRANGE", key.ready, 0, most - 1)) do add(host) end
  for _, host in ipairs(redis.call("ZRANGE", key.waiting, 0, most - 1)) do add(host) end
  local started = redis.call("HSCAN", key.hosts, 0, "COUNT", most)[2]
  for i = 1, #started, 2 do add(started[i]) end
  local with_policy = redis.call("HSCAN", key.policies, 0, "COUNT", most)[2]
  for i = 1, #with_policy, 2 do
    if has_own_policy(with_policy[i]) then add(with_policy[i]) end
  end
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

add_all()
local rows = {}
for i, host in ipairs(names) do
  local delay, concurrency, burst, blocked, paused, base = policy(host)
  local crawl_delay = own_policy(host)[CRAWL_DELAY]
  local pending, leased, spent = waiting_of(host), standing(host)
  local place_word, opens_in = where(host, pending, leased, spent, paused)
  local pages = tonumber(redis.call("HGET", key.pages, host) or 0)
  rows[i] = {
    host, place_word, milliseconds(opens_in), pending, leased, milliseconds(delay), concurrency, burst, whole(blocked > now and blocked - ahead or 0),
    paused and 1 or 0, pages, delay > base and milliseconds(base) or "", crawl_delay == "-" and "" or crawl_delay,
    redis.call("HGET", key.answers, host) or "", is_share(pending, room) and 1 or 0,
  }
end
return rows
