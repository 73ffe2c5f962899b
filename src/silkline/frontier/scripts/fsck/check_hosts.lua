#!lua flags=allow-oom
-- Check that hosts are scheduled correctly, a bounded number per call, and repair those that are not. A host is scheduled if it is
-- in `ready` or `waiting`.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, repair (1 or ""), side (ready, waiting, lanes or named), cursor ("0" at first), named hosts…
--         a named host is "priority host": a queue that was found
--
-- Returns {the next cursor, "" at the end, kind, host, kind, host …}; kinds: lost (has requests, but is not scheduled), empty
-- (scheduled without requests), twice (both ready and waiting), unlisted (a queue is missing from the lanes), hollow (a lane without
-- requests).
local ledger_key, clock, repair, side, cursor = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "hosts"
local refusal = check_ledger()
if refusal then return refusal end
local BATCH = 500
local reply, found = { "" }, false

local function report(kind, host)
  reply[#reply + 1] = kind
  reply[#reply + 1] = host
  found = true
end

-- Returns whether the lanes of a host contain this priority.
local function has_lane(lanes, priority)
  for listed in string.gmatch(lanes or "0", "%S+") do
    if listed == priority then return true end
  end
  return false
end

local function check_lanes(host, priority)
  local lanes = lanes_of(host)
  for listed in string.gmatch(lanes or "", "%S+") do
    if not has_requests(listed, host) then
      report("hollow", host)
      if repair == "1" then close_lane(host, tonumber(listed)) end
    end
  end
  if priority and has_requests(priority, host) and not has_lane(lanes, priority) then
    report("unlisted", host)
    if repair == "1" then open_lane(host, tonumber(priority)) end
  end
end

-- Returns the kind of damage of a host, or nil. A host that is paused or at its cap is not scheduled.
local function damage(host, leased)
  local ready, waiting = redis.call("ZSCORE", key.ready, host), redis.call("ZSCORE", key.waiting, host)
  if ready and waiting then return "twice" end
  if not top_lane(host) then return (ready or waiting) and "empty" or nil end
  local _, concurrency, _, _, paused = policy(host)
  if ready or waiting or paused or leased >= concurrency then return nil end
  return "lost"
end

local function check_place(host)
  if ledger.state == "cancelled" then return end -- its queues are being deleted
  local leased, spent, stored = standing(host)
  local kind = damage(host, leased)
  if not kind then return end
  report(kind, host)
  if repair ~= "1" then return end
  local rests = not stored and redis.call("ZSCORE", key.idle, host)
  if rests then redis.call("ZREM", key.idle, host) end
  place(host, leased, rests and tonumber(rests) or spent, top_lane(host))
end

local function check_all(hosts)
  for _, host in ipairs(hosts) do
    check_lanes(host)
    check_place(host)
  end
end

if side == "named" then
  for i = 5, #ARGV do
    local priority, host = string.match(ARGV[i], "^(%S+) (.*)$")
    check_lanes(host, priority)
    check_place(host)
  end
elseif side == "lanes" then
  local page, hosts = redis.call("HSCAN", key.lanes, cursor, "COUNT", BATCH), {}
  for i = 1, #page[2], 2 do hosts[#hosts + 1] = page[2][i] end
  check_all(hosts)
  reply[1] = page[1] == "0" and "" or page[1]
else
  local start = tonumber(cursor)
  local hosts = redis.call("ZRANGE", key[side], start, start + BATCH - 1)
  check_all(hosts)
  reply[1] = #hosts == BATCH and whole(start + BATCH) or ""
end
if found and repair == "1" then finish() end
return reply
