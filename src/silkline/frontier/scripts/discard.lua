#!lua flags=allow-oom
-- Drop what waits: all of a cancelled crawl, or what one host has. A bounded number of hosts and requests per call.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, host ("" for the whole shard), skip: how many delayed requests of others to pass over
--
-- Returns {how many requests were dropped, the next skip or "" when nothing is left to drop}.
local root, clock, only_host, skip = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
--- @include "steady"
--- @include "keys"
--- @include "ledger"
--- @include "hosts"
--- @include "entries"
local refusal = read_ledger()
if refusal then return refusal end
local BATCH = 200
local before = ledger.discarded
local more = false

local function drop_host(host)
  drop_lanes(host)
  local leased, spent = standing(host)
  rest(host, leased, spent)
end

local function drop_delayed()
  local members = redis.call("ZRANGE", key.delayed, skip, skip + BATCH - 1)
  local dropped = {}
  for _, member in ipairs(members) do
    local host = read_entry(string.sub(member, string.find(member, "\n", 1, true) + 1))
    if only_host == "" or host == only_host then dropped[#dropped + 1] = member end
  end
  if #dropped > 0 then redis.call("ZREM", key.delayed, unpack(dropped)) end
  ledger.discarded = ledger.discarded + #dropped
  skip = skip + #members - #dropped
  if #members == BATCH then more = true end
end

local function drop_hosts(hosts)
  for _, host in ipairs(hosts) do drop_host(host) end
  if #hosts == BATCH then more = true end
end

-- Hosts that have requests and are in no place: they are at their cap, so they have leases, or they are paused.
local function drop_hidden_hosts()
  for _, known in ipairs({ key.hosts, key.policies }) do
    for _, host in ipairs(redis.call("HKEYS", known)) do
      if top_lane(host) then drop_host(host) end
    end
  end
end

if only_host ~= "" then
  drop_host(only_host)
else
  drop_hosts(redis.call("ZRANGE", key.ready, 0, BATCH - 1))
  drop_hosts(redis.call("ZRANGE", key.waiting, 0, BATCH - 1))
end
drop_delayed()
if only_host == "" and not more then drop_hidden_hosts() end
finish()
return { ledger.discarded - before, more and whole(skip) or "" }
