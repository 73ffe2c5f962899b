#!lua
-- Add a batch of calls to a group, after they were enqueued, or close the group. When it is closed and all of its calls have ended, its
-- call is enqueued, or buried if one of them has failed.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, slot, call, group, batch ("": none), letters (one for each call of the batch: "." if it has not ended, "d" done,
--         "f" failed, "x" if it was not enqueued), then (close, drop: delete the group and its call, or "")
--
-- Returns joined, closed if the group was closed before, complete if its call was enqueued or buried, dropped, or gone if there is no
-- such group.
local ledger_key, clock, slot, call, group, batch, letters, following =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "idempotency"
--- @nest
--- @include "hosts"
--- @include "entries"
--- @include "dead_store"
--- @include "groups"
local refusal = check_ledger()
if refusal then return refusal end
local stored = replay()
if stored then return stored end

-- Returns the letters of the batch with those of calls that ended before it joined.
local function merged()
  local early, joined = letters_of(group, batch, #letters)
  if joined then return nil end
  local all = {}
  for i = 1, #letters do
    local given = string.sub(letters, i, i)
    all[i] = given == PENDING and string.sub(early, i, i) or given
  end
  return table.concat(all)
end

local function occurrences(letter, text)
  return select(2, string.gsub(text, "[" .. letter .. "]", ""))
end

local function join()
  local all = merged()
  if not all then return end
  redis.call("HINCRBY", group_key(group), "calls", #all - occurrences(NO_CALL, all))
  count(group, PENDING, occurrences(PENDING, all))
  count(group, FAILED, occurrences(FAILED, all))
  store_letters(group, batch, all, true)
end

-- Deletes the group and its call, for which another group may wait.
local function drop()
  local waits = redis.call("HGET", group_key(group), "waits")
  redis.call("UNLINK", group_key(group))
  redis.call("ZREM", key.groups, group)
  if redis.call("ZREM", key.delayed, waits) == 0 then return "dropped" end
  ledger.discarded = ledger.discarded + 1
  note_ends({ string.match(waits, "^%d+\n(.*)$") }, FAILED)
  return "dropped"
end

local function answer()
  local closed = redis.call("HGET", group_key(group), "closed")
  if not closed then return "gone" end
  if closed == "1" then return "closed" end
  if following == "drop" then return drop() end
  if batch ~= "" then join() end
  if following == "close" then redis.call("HSET", group_key(group), "closed", "1") end
  return end_if_complete(group) and "complete" or "joined"
end

local reply = answer()
keep_dead_limit()
finish()
remember(reply)
return reply
