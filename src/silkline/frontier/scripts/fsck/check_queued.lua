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
local refusal = read_ledger()
if refusal then return refusal end
local PLACES, PAGE, MOST = { "ready", "waiting", "hosts", "policies" }, 500, 10000
local moves, looked = whole(ledger.moves), 0
if began ~= "" and began ~= moves then return { "moved", 0, moves, 0 } end

-- Returns whether a host was counted in an earlier place.
local function was_counted(host, place)
  for _, earlier in ipairs(PLACES) do
    if earlier == place then return false end
    local known = earlier == "hosts" and redis.call("HEXISTS", key.hosts, host) == 1
    if known or earlier ~= "hosts" and redis.call("ZSCORE", key[earlier], host) then return true end
  end
end

local function count(hosts, place)
  for _, host in ipairs(hosts) do
    if place == "ready" or not was_counted(host, place) then
      for priority in string.gmatch(lanes_of(host) or "0", "%S+") do
        counted = counted + redis.call("LLEN", queue_key(priority, host))
      end
    end
  end
  looked = looked + #hosts
end

-- Returns some hosts of a place and the next cursor, nil at the end.
local function page_of(place, cursor)
  if place == "ready" or place == "waiting" then
    local start = tonumber(cursor)
    local hosts = redis.call("ZRANGE", key[place], start, start + PAGE - 1)
    return hosts, #hosts == PAGE and whole(start + PAGE) or nil
  end
  local page, hosts = redis.call("HSCAN", key[place], cursor, "COUNT", PAGE), {}
  for i = 1, #page[2], 2 do hosts[#hosts + 1] = page[2][i] end
  return hosts, page[1] ~= "0" and page[1] or nil
end

local at, from_cursor = string.match(position, "^(%S+) (%S+)$")
local reached = false
for _, place in ipairs(PLACES) do
  if place == at then reached = true end
  local cursor = place == at and from_cursor or "0"
  while reached and cursor do
    if looked >= MOST then return { place .. " " .. cursor, counted, moves, ledger.queued } end
    local hosts, following = page_of(place, cursor)
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
