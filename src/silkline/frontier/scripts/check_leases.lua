#!lua flags=allow-oom
-- Check that every host is said to have as many places taken as its leases hold, a bounded number of hosts per call, and put those right
-- that are not. All leases are counted in each call; if there are too many for that, nothing is checked.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, repair (1 or ""), cursor ("0" at first)
--
-- Returns {the next cursor, "" at the end, or "many" when there are too many leases; host, host …} of those that were wrong.
local root, clock, repair, cursor = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "steady"
--- @include "keys"
--- @include "ledger"
--- @include "hosts"
--- @include "entries"
local refusal = read_ledger()
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
  local really = counts[host] or 0
  if leased == really then return end
  reply[#reply + 1] = host
  if repair == "1" then place(host, really, spent, top_lane(host)) end
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
