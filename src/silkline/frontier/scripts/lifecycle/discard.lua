#!lua flags=allow-oom
-- Delete waiting requests: all of a cancelled crawl, or those of one host. A bounded number of hosts and requests per call.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, host ("" for the whole shard), position ("0" at first): how many delayed requests of other hosts to skip,
--         or the name of a hash of hosts and a cursor
--
-- Returns {how many requests were deleted, the next position or "" at the end}.
local ledger_key, clock, only_host, position = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "hosts"
--- @include "entries"
--- @include "watches"
local refusal = check_ledger()
if refusal then return refusal end
local BATCH = 200
local MOST_WATCHED = 1000 -- requests of a lane that a call drops if groups may wait for them
local before = ledger.discarded
local more, skip = false, tonumber(position)

-- Drops requests of the host, a bounded number, and notes their ends for the groups that wait for them. Returns whether there are more.
local function drop_watched(host)
  local texts = {}
  for lane in string.gmatch(lanes_of(host) or "0", "%S+") do
    local items = redis.call("LPOP", queue_key(lane, host), MOST_WATCHED) or {}
    for _, item in ipairs(items) do
      local record = item
      if not is_untried(item) then record = select(4, read_queued(item)) end
      texts[#texts + 1] = entry(host, lane, 0, 0, 0, record)
    end
    ledger.queued, ledger.discarded = ledger.queued - #items, ledger.discarded + #items
    more = more or has_requests(lane, host)
  end
  note_ends(texts, FAILED)
  return more
end

local function drop_host(host)
  if only_host ~= "" and ledger.watched > now and drop_watched(host) then return end
  drop_lanes(host)
  local leased, spent = standing(host)
  rest(host, leased, spent)
end

local function drop_delayed()
  local members = redis.call("ZRANGE", key.delayed, skip, skip + BATCH - 1)
  local dropped, texts = {}, {}
  for _, member in ipairs(members) do
    local text = string.sub(member, string.find(member, "\n", 1, true) + 1)
    if only_host == "" or read_entry(text) == only_host then
      dropped[#dropped + 1], texts[#texts + 1] = member, text
    end
  end
  if only_host ~= "" then note_ends(texts, FAILED) end
  if #dropped > 0 then redis.call("ZREM", key.delayed, unpack(dropped)) end
  ledger.discarded = ledger.discarded + #dropped
  skip = skip + #members - #dropped
  if #members == BATCH then more = true end
end

local function drop_hosts(hosts)
  for _, host in ipairs(hosts) do drop_host(host) end
  if #hosts == BATCH then more = true end
end

-- Drops hosts with requests that are neither ready nor waiting: those at their cap have leases ("hosts"), those that are paused have a
-- policy ("policies"). Returns the next position.
local function drop_unscheduled_hosts(name, cursor)
  local page = redis.call("HSCAN", key[name], cursor, "COUNT", BATCH)
  for i = 1, #page[2], 2 do
    if top_lane(page[2][i]) then drop_host(page[2][i]) end
  end
  if page[1] ~= "0" then return name .. " " .. page[1] end
  return name == "hosts" and "policies 0" or ""
end

local function drop_scheduled()
  if only_host ~= "" then
    drop_host(only_host)
  else
    drop_hosts(redis.call("ZRANGE", key.ready, 0, BATCH - 1))
    drop_hosts(redis.call("ZRANGE", key.waiting, 0, BATCH - 1))
  end
  drop_delayed()
  if more then return whole(skip) end
  return only_host == "" and "hosts 0" or ""
end

local name, cursor = string.match(position, "^(%a+) (%d+)$")
local following = name and drop_unscheduled_hosts(name, cursor) or drop_scheduled()
finish()
return { ledger.discarded - before, following }
