#!lua flags=no-writes
-- List the requests in one state, of the shard or of one host, a bounded number of entries and hosts per call. Delayed requests are
-- sorted by due time, leased ones by the time at which the lease expires. Ready ones are listed host by host, in the order of each queue.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    state (ready, delayed or leased), host ("" for all), most, position ("" at first)
--
-- Returns {next position or "" at the end, entries read, then for each request: reference, time in ms or "", entry}. The reference of
-- a ready request is "priority:index:length:digest:host", that of a delayed one "due:place among those due then:number", that of a
-- leased one its token.
local ledger_key, state, only_host, most, position = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
--- @include "keys"
--- @include "ledger"
--- @include "lanes"
--- @include "entries"
--- @include "server_time"
--- @include "queued_hosts"
--- @include "item_digest"
local refusal = check_ledger()
if refusal then return refusal end
local PAGE, MOST_HOSTS = 100, 1000
local MOST_READ = 1000 -- entries among which those of one host are searched
local reply, read, rows = { "", 0 }, 0, 0

local function add(reference, time, text)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = reference, time, with_server_time(text, 4)
  rows = rows + 1
end

local function add_queued(host, lane, index, item)
  local text
  if is_untried(item) then
    text = entry(host, lane, 0, 0, 0, item)
  else
    local attempts, doubt, first, record = read_queued(item)
    text = entry(host, lane, attempts, doubt, first, record)
  end
  add(table.concat({ lane, whole(index), #item, digest(item), host }, ":"), "", text)
end

-- Lists the queue of a host from this lane ("" for the first) and index on. Returns where to continue, nil at its end.
local function list_queue(host, from_lane, from_index)
  for lane in string.gmatch(lanes_of(host) or "0", "%S+") do
    if from_lane == "" or tonumber(lane) <= tonumber(from_lane) then
      local index = lane == from_lane and from_index or 0
      local items = rows < most and redis.call("LRANGE", queue_key(lane, host), index, index + most - rows - 1) or {}
      for i, item in ipairs(items) do add_queued(host, lane, index + i - 1, item) end
      read, index = read + #items, index + #items
      if rows == most and redis.call("LLEN", queue_key(lane, host)) > index then return lane, index end
    end
  end
end

local function list_queues()
  local at, cursor, skip, lane, index = string.match(position, "^(%a+) (%d+) (%d+) ([%d-]*) (%d+)$")
  skip, index = tonumber(skip or 0), tonumber(index or 0)
  local looked, reached = 0, not at
  for _, place in ipairs(PLACES) do
    local here = place == at and cursor or "0"
    reached = reached or place == at
    while reached and here do
      local hosts, following = page_of(place, here, PAGE)
      for i = skip + 1, #hosts do
        local host, at_lane = hosts[i], lane or ""
        local next_lane, next_index
        if looked == MOST_HOSTS then
          next_lane, next_index = at_lane, index
        elseif not is_in_earlier_place(host, place) then
          next_lane, next_index = list_queue(host, at_lane, index)
        end
        if next_lane then return table.concat({ place, here, i - 1, next_lane, whole(next_index) }, " ") end
        looked, lane, index = looked + 1, "", 0
      end
      here, skip = following, 0
    end
  end
  return ""
end

local function list_queue_of_host()
  local lane, index = string.match(position, "^([%d-]+) (%d+)$")
  local next_lane, next_index = list_queue(only_host, lane or "", tonumber(index or 0))
  return next_lane and next_lane .. " " .. whole(next_index) or ""
end

-- Returns how many members have a lower score.
local function rank_of(set_key, score)
  return redis.call("ZCOUNT", set_key, "-inf", "(" .. score)
end

-- Lists members of a sorted set by score. A position is a score, and how many members with it come before.
local function list_by_time(set_key, read_member)
  local score, skip = string.match(position, "^(%S+) (%d+)$")
  local first = score and rank_of(set_key, score) + skip or 0
  local pairs_read = redis.call("ZRANGE", set_key, first, first + (only_host == "" and most or MOST_READ) - 1, "WITHSCORES")
  for i = 1, #pairs_read, 2 do
    if rows == most then break end
    local member, time = pairs_read[i], pairs_read[i + 1]
    read = read + 1
    if time ~= score then score, skip = time, first + read - 1 - rank_of(set_key, time) end
    if time ~= "inf" then read_member(member, time, skip) end -- else the member of `leases` that never expires
    skip = skip + 1
  end
  local last = redis.call("ZRANGE", set_key, first + read, first + read)[1]
  local is_end = not last or (set_key == key.leases and string.byte(last) == 45) -- a dash: the same member
  return is_end and "" or score .. " " .. whole(skip)
end

local function list_delayed()
  return list_by_time(key.delayed, function(member, time, skip)
    local number, at = string.match(member, "^(%d+)\n()")
    local text = string.sub(member, at)
    if only_host == "" or host_of(text) == only_host then
      add(time .. ":" .. whole(skip) .. ":" .. number, server_time(time), text)
    end
  end)
end

local function list_leased()
  return list_by_time(key.leases, function(token, time)
    local text = redis.call("HGET", key.leased, token)
    if text and (only_host == "" or host_of(text) == only_host) then add(token, server_time(time), text) end
  end)
end

if state == "delayed" then
  reply[1] = list_delayed()
elseif state == "leased" then
  reply[1] = list_leased()
else
  reply[1] = only_host == "" and list_queues() or list_queue_of_host()
end
reply[2] = read
return reply
