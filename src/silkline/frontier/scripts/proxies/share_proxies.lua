#!lua
-- Store what a worker has found out about its proxies, decide which of them it must check, and list what has changed since its last
-- call. If more than `most` proxies are stored, those that have not changed for the longest time are dropped.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, slot, call, worker, since, most, first_ms, longest_ms, proxy, event, why, counts…
--         worker is a word; since is the number of the last change that it knows; the first rest of a proxy takes first_ms, and no
--         rest longer than longest_ms; event is check, passed, failed, worked or ""; counts are responses, failures, blocks and ms;
--         tier as event moves a host: proxy is the host, why its tier
--
-- Returns {number of the last change that is listed, then for each proxy: its name, a word (ready, resting, check, wait), ms,
-- failures in a row, why it failed; and for each host that was moved: the host, tier, ms for which it stays, the tier, ""}.
local crawl, clock, slot, call, worker, since, most, first_ms, longest_ms =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local root = crawl
--- @include "clock"
--- @include "idempotency"
--- @include "migration"
--- @include "crawl"
--- @include "proxies"
--- @include "proxy_tiers"
local refusal = refuse_migration(crawl) or refuse_missing_crawl(crawl)
if refusal then return refusal end
local RECENTLY_MS, CHECK_LIMIT_MS, MOST_COUNTED, LONGER, MOST_LISTED = 15000, 30000, 1000, 4, 400
local is_repeated = replay()
local news = {}

local function tell(name, word, ms, proxy)
  local i = #news
  news[i + 1], news[i + 2], news[i + 3] = name, word, whole(ms)
  news[i + 4], news[i + 5] = whole(proxy.failures), proxy.why
end

local function add_counts(proxy, counts)
  local fetched, failed, blocked, ms = string.match(counts, "^(%d+) (%d+) (%d+) (%d+)$")
  proxy.fetched, proxy.failed = proxy.fetched + fetched, proxy.failed + failed
  proxy.blocked, proxy.ms = proxy.blocked + blocked, proxy.ms + ms
  while proxy.fetched + proxy.failed > MOST_COUNTED do
    for _, count in ipairs({ "fetched", "failed", "blocked", "ms" }) do proxy[count] = math.floor(proxy[count] / 2) end
  end
  if tonumber(fetched) > 0 and proxy.rests_until <= now then proxy.worked_at, proxy.worker = now, worker end
end

-- Decides what the worker that wants to check a proxy must do.
local function grant_check(name, proxy)
  if proxy.rests_until > now then
    tell(name, "resting", proxy.rests_until - now, proxy)
  elseif is_known_to_work(proxy) then
    tell(name, "ready", 0, proxy)
  elseif proxy.check_until > now and proxy.checker ~= worker then
    tell(name, "wait", proxy.check_until - now, proxy)
  else
    proxy.checker, proxy.check_until = worker, now + CHECK_LIMIT_MS
    tell(name, "check", 0, proxy)
  end
end

-- Each returns whether the state has changed. A failure at one worker counts only for that worker if the proxy works for another one.
local events = {
  [""] = function() return false end,
  check = function(proxy, name) grant_check(name, proxy) return false end,
  passed = function(proxy)
    proxy.check_until, proxy.rests_until, proxy.worked_at, proxy.worker = 0, 0, now, worker
    return true
  end,
  worked = function(proxy)
    local had_failed = proxy.failures > 0 or proxy.rests_until > 0
    proxy.failures, proxy.check_until, proxy.rests_until, proxy.why, proxy.accuser = 0, 0, 0, "", "-"
    proxy.worked_at, proxy.worker = now, worker
    return had_failed
  end,
  failed = function(proxy, _, why)
    if proxy.rests_until > now then return false end
    proxy.check_until = 0
    local works_elsewhere = proxy.worker ~= worker and proxy.worked_at > now - RECENTLY_MS
    if works_elsewhere and (proxy.accuser == "-" or proxy.accuser == worker) then
      proxy.accuser = worker
      return false
    end
    proxy.failures, proxy.why, proxy.accuser, proxy.worked_at = proxy.failures + 1, why, "-", 0
    proxy.rests_until = now + math.min(first_ms * LONGER ^ math.min(proxy.failures - 1, 10), longest_ms)
    return true
  end,
}

local function store(name, proxy)
  local numbers = {}
  for at, number in ipairs(NUMBERS) do numbers[at] = whole(proxy[number]) end
  local words = table.concat({ proxy.checker, proxy.worker, proxy.accuser, proxy.why }, " ")
  redis.call("HSET", proxies_key, name, table.concat(numbers, " ") .. ";" .. words)
end

local function after_last(changes_key)
  return tonumber(redis.call("ZREVRANGE", changes_key, 0, 0, "WITHSCORES")[2] or 0) + 1
end

local change = math.max(after_last(proxy_changes_key), after_last(proxy_tiers_key), now)

local function report(name, event, why, counts)
  local stored = redis.call("HGET", proxies_key, name)
  local proxy = read_proxy(stored)
  if not is_repeated and counts ~= "" then add_counts(proxy, counts) end
  local is_changed = events[event](proxy, name, why)
  proxy.updated = now
  store(name, proxy)
  if is_changed or not stored then redis.call("ZADD", proxy_changes_key, change, name) end
  return is_changed or not stored
end

for at = 9, #ARGV, 4 do
  local is_changed
  if ARGV[at + 1] == "tier" then
    is_changed = set_tier(ARGV[at], tonumber(ARGV[at + 2]), change)
  else
    is_changed = report(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
  end
  if is_changed then change = change + 1 end
end
local surplus = redis.call("ZCARD", proxy_changes_key) - most
if surplus > 0 then
  local old = redis.call("ZRANGE", proxy_changes_key, 0, math.min(surplus, MOST_LISTED) - 1)
  redis.call("HDEL", proxies_key, unpack(old))
  redis.call("ZREM", proxy_changes_key, unpack(old))
end
if #ARGV > 8 then remember("1") end

local after = "(" .. whole(since)
local names = redis.call("ZRANGEBYSCORE", proxy_changes_key, after, "+inf", "WITHSCORES", "LIMIT", 0, MOST_LISTED)
for i = 1, #names, 2 do
  local proxy = read_proxy(redis.call("HGET", proxies_key, names[i]))
  if proxy.rests_until > now then
    tell(names[i], "resting", proxy.rests_until - now, proxy)
  elseif is_known_to_work(proxy) then
    tell(names[i], "ready", 0, proxy)
  end
end
local moved, last_moved = moved_hosts(after, MOST_LISTED)
for _, one in ipairs(moved) do tell(one.host, "tier", one.left, { failures = one.tier, why = "" }) end
local is_cut = #names == 2 * MOST_LISTED
since = math.min(is_cut and tonumber(names[#names]) or change - 1, last_moved or change - 1)
return { whole(since), unpack(news) }
