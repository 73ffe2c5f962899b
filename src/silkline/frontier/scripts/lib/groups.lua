-- Groups: a call that waits until all calls of its group have ended. It is a delayed request, which is not due before a time that never
-- comes. The name of a group is the host and the path of that call.
-- The hash of a group has: waits, the delayed request; due, ms before which the call does not run (0: none); lenient, 1 if it also runs
-- if a call of the group has failed; closed, 1 when no more calls join; calls, left, failed: counts; and for each batch of up to a thousand
-- calls "batch:<id>": "+", or "-" before the batch has joined, and a letter for each call: (d)one, (f)ailed, "." not ended, "x" no
-- call.
-- Needs: key, root, ledger, now, hosts, entries, dead_store.
--- @include "watches"
local NO_CALL, JOINED, EARLY = "x", "+", "-"

local function group_key(group)
  return root .. ":group:" .. group
end

local function exists(group)
  return redis.call("EXISTS", group_key(group)) == 1
end

local function enqueue_waiting(member, due)
  local text = string.match(member, "^%d+\n(.*)$")
  local host, priority, _, _, _, record = read_entry(text)
  if ledger.state == "cancelled" then
    ledger.discarded = ledger.discarded + 1
  elseif due > now then
    redis.call("ZADD", key.delayed, whole(due), member)
    expect_at(due)
  elseif push(host, priority, { record }, 1) then
    wake(host, priority)
  end
end

local function bury_waiting(member, reason)
  local number, text = string.match(member, "^(%d+)\n(.*)$")
  local host, priority, _, _, _, record = read_entry(text)
  store_dead(number, reason, "", host, entry(host, priority, 0, 0, now, record))
end

-- Deletes a group, and enqueues its call, or buries it with a reason. An operator may have dropped the call, or made it run early.
local function end_group(group, reason)
  local waits, due = unpack(redis.call("HMGET", group_key(group), "waits", "due"))
  redis.call("UNLINK", group_key(group))
  redis.call("ZREM", key.groups, group)
  if not waits or redis.call("ZREM", key.delayed, waits) == 0 then return end
  if reason then bury_waiting(waits, reason) else enqueue_waiting(waits, tonumber(due)) end
end

-- Ends a group if it is closed and all its calls have ended. Returns whether it has ended.
local function end_if_complete(group)
  local closed, left, failed, calls, lenient =
    unpack(redis.call("HMGET", group_key(group), "closed", "left", "failed", "calls", "lenient"))
  if closed ~= "1" or left ~= "0" then return false end
  local spoiled = failed ~= "0" and lenient ~= "1"
  end_group(group, spoiled and failed .. " of the " .. calls .. " calls that it waited for failed" or nil)
  return true
end

local function count(group, letter, by)
  if by == 0 then return end
  if letter == PENDING then redis.call("HINCRBY", group_key(group), "left", by) end
  if letter == FAILED then redis.call("HINCRBY", group_key(group), "failed", by) end
end

-- Returns the letters of a batch, at least `least` of them, and whether it has joined its group.
local function letters_of(group, batch, least)
  local stored = redis.call("HGET", group_key(group), "batch:" .. batch) or EARLY
  local letters = string.sub(stored, 2)
  return letters .. string.rep(PENDING, least - #letters), string.sub(stored, 1, 1) == JOINED
end

local function store_letters(group, batch, letters, joined)
  redis.call("HSET", group_key(group), "batch:" .. batch, (joined and JOINED or EARLY) .. letters)
end

-- Notes that calls of a batch of an existing group have ended, each once. They may end before their batch has joined.
-- `outcomes`: pairs of the number of a call and its outcome.
local function mark_ended(group, batch, outcomes)
  local letters, joined = letters_of(group, batch, 0)
  local ended, failed = 0, 0
  for _, pair in ipairs(outcomes) do
    local number, outcome = pair[1], pair[2]
    letters = letters .. string.rep(PENDING, number + 1 - #letters)
    if string.sub(letters, number + 1, number + 1) == PENDING then
      letters = string.sub(letters, 1, number) .. outcome .. string.sub(letters, number + 2)
      ended, failed = ended + 1, failed + (outcome == FAILED and 1 or 0)
    end
  end
  if ended == 0 then return end
  store_letters(group, batch, letters, joined)
  if joined then
    count(group, PENDING, -ended)
    count(group, FAILED, failed)
  end
end
