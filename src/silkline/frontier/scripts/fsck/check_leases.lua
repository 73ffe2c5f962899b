#!lua flags=allow-oom
-- Check the number of leases that each host counts as in progress, a bounded number of hosts per call, and correct wrong ones. All
-- leases are counted in each call; if there are too many, nothing is checked.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, repair (1 or ""), cursor ("0" at first)
--
-- Returns {the next cursor, "" at the end, or "many" if there are too many leases; host, host …}: the hosts whose number is wrong.
local ledger_key, clock, repair, cursor = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "hosts"
--- @include "entries"
local refusal = check_ledger()
if refusal then return refusal end
local BATCH, MOST = 5000, 20000
if redis.call("HLEN", key.leased) > MOST then return { "many" } end
local counts, reply = {}, { "" }

local function count_leases()
  local position = "0"
  repeat
    local page = redis.call("HSCAN", key.leased, position, "COUNT", 1000)
    position = page[1]
    for i = 2, #page[2], 2 do
      local host = host_of(page[2][i])
      counts[host] = (counts[host] or 0) + places_of(page[2][i])
    end
  until position == "0"
end

local function check(host)
  local leased, spent = standing(host)
  local counted = counts[host] or 0
  if leased == counted then return end
  reply[#reply + 1] = host
  if repair == "1" then place(host, counted, spent, top_lane(host)) end
end

count_leases()
local page = redis.call("HSCAN", key.hosts, cursor, "COUNT", BATCH)
for i = 1, #page[2], 2 do check(page[2][i]) end
if cursor == "0" then
  for host in pairs(counts) do
    if redis.call("HEXISTS", key.hosts, host) == 0 then check(host) end
  end
end
reply[1] = page[1] == "0" and "" or page[1]
if #reply > 1 and repair == "1" then finish() end
return reply
