#!lua flags=allow-oom
-- Count the requests in the queues, a bounded number of hosts per call, and correct the counter if it differs. A host is counted
-- in the first of these keys that has it: ready, waiting, hosts, policies.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    repair (1 or ""), place and cursor ("ready 0" at first), counted so far, moves at the start ("" at first)
--
-- Returns {next place and cursor, "" at the end, or "moved" if requests moved between two calls; counted, moves, the counter}.
local ledger_key, repair, position, counted, began = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
--- @include "keys"
--- @include "ledger"
--- @include "lanes"
--- @include "queued_hosts"
local refusal = check_ledger()
if refusal then return refusal end
local PAGE, MOST = 500, 10000
local moves, looked = whole(ledger.moves), 0
if began ~= "" and began ~= moves then return { "moved", 0, moves, 0 } end

local function count(hosts, place)
  for _, host in ipairs(hosts) do
    if place == "ready" or not is_in_earlier_place(host, place) then
      for priority in string.gmatch(lanes_of(host) or "0", "%S+") do
        counted = counted + redis.call("LLEN", queue_key(priority, host))
      end
    end
  end
  looked = looked + #hosts
end

local at, from_cursor = string.match(position, "^(%S+) (%S+)$")
local reached = false
for _, place in ipairs(PLACES) do
  if place == at then reached = true end
  local cursor = place == at and from_cursor or "0"
  while reached and cursor do
    if looked >= MOST then return { place .. " " .. cursor, counted, moves, ledger.queued } end
    local hosts, following = page_of(place, cursor, PAGE)
    count(hosts, place)
    cursor = following
  end
end
local was = ledger.queued
if repair == "1" and counted ~= was then
  ledger.queued = counted
  write_ledger()
end
return { "", counted, moves, was }
