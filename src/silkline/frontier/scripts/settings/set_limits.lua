#!lua flags=allow-oom
-- Change the limits of this shard: its page allowance, the pages per host, its capacity. Hosts are placed again, a bounded number
-- per call.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, allowance ("used" for the pages that are done or leased now, "=N" for a number; both start a new epoch), host_pages,
--         capacity, settings of the crawl (JSON), position ("0" at first); for allowance, host_pages and capacity, "" means
--         unchanged and "-" means no limit
--
-- Returns the position for the next call, "0" if all hosts are placed; or "uncounted" if this shard has done or leased pages without
-- counting them by host, so that pages per host cannot be limited. Calls may be repeated.
local ledger_key, clock, allowance, host_pages, capacity, settings, position =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "hosts"
--- @include "placing"
--- @include "allow_oom"
local refusal = check_ledger()
if refusal then return refusal end
local UNLIMITED = 1e15 -- pages are still counted, so that they can be limited again
local limits_hosts = host_pages ~= "" and host_pages ~= "-"
if limits_hosts and not ledger.host_pages and ledger.done + redis.call("HLEN", key.leased) > 0 then return "uncounted" end
allow_oom(key.ledger)
if redis.call("HEXISTS", key.ledger, "settings") == 1 then redis.call("HSET", key.ledger, "settings", settings) end
if capacity ~= "" then redis.call("HSET", key.ledger, "capacity", capacity) end
if position == "0" then -- once, not in every call
  if allowance == "-" then
    redis.call("HDEL", key.ledger, "allowance")
  elseif allowance == "used" or string.sub(allowance, 1, 1) == "=" then
    local used = ledger.done + redis.call("HLEN", key.leased)
    redis.call("HINCRBY", key.ledger, "epoch", 1)
    redis.call("HSET", key.ledger, "allowance", tonumber(string.sub(allowance, 2)) or whole(used))
  elseif allowance ~= "" then
    redis.call("HSET", key.ledger, "allowance", allowance)
  end
  redis.call("PUBLISH", key.bell, "0") -- waiting clients claim again
end
if host_pages == "" or (host_pages == "-" and not ledger.host_pages) then return "0" end
ledger.host_pages = tonumber(host_pages) or UNLIMITED
redis.call("HSET", key.ledger, "host_pages", whole(ledger.host_pages))

local function place_hosts(cursor)
  -- Until all hosts are placed, a host that frees a place may have been at any cap: see unlease.
  ledger.pacing = 0
  redis.call("HSET", key.ledger, "pacing", 0)
  local hosts, following = scan_hosts("HSCAN", key.hosts, cursor)
  for _, host in ipairs(hosts) do place_again(host, standing(host)) end
  if following == "0" then redis.call("HDEL", key.ledger, "pacing") end
  return next_position("hosts", following, limits_hosts and "pages")
end

-- Drops the requests of hosts that have reached a lower limit; such hosts may be in any place.
local function drop_spent_hosts(cursor)
  local hosts, following = scan_hosts("HSCAN", key.pages, cursor)
  for _, host in ipairs(hosts) do
    local _, concurrency = policy(host)
    local top = concurrency < 1 and top_lane(host)
    if top then
      local leased, spent = standing(host)
      place(host, leased, spent, top)
    end
  end
  return next_position("pages", following)
end

local name, cursor = read_position(position)
position = name == "pages" and drop_spent_hosts(cursor) or place_hosts(cursor)
finish()
return position
