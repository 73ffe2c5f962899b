#!lua
-- Store a call that waits for the calls of a group, and the group without any call. It is enqueued when the group is closed and all of
-- its calls have ended.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, slot, call, group, host, fingerprint ("": it is not filtered), priority, due (ms of the server's clock; 0: now), lenient
--         (1: the call also runs if a call of the group has failed, else 0), until (ms of the server's clock at which it becomes a
--         dead letter), record (see created.lua)
--
-- Returns added, open if the group exists and is not closed, seen if the call was enqueued before, full, or refused if the crawl is
-- cancelled.
local ledger_key, clock, slot, call, group, host, fingerprint, priority, due, lenient, until_, record =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9], tonumber(ARGV[10]), ARGV[11]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "idempotency"
--- @nest
--- @include "hosts"
--- @include "entries"
--- @include "created"
--- @include "seen"
--- @include "dead_store"
--- @include "groups"
local refusal = check_ledger()
if refusal then return refusal end
local stored = replay()
if stored then return stored end
local NEVER = 315360000000 -- ms after `until`

local function open()
  local closed = redis.call("HGET", group_key(group), "closed")
  if closed then return closed == "1" and "seen" or "open" end
  if ledger.state == "cancelled" then return "refused" end
  if fingerprint ~= "" and was_seen(fingerprint) then return "seen" end
  if ledger.queued + redis.call("ZCARD", key.delayed) >= ledger.capacity then return "full" end
  if fingerprint ~= "" and not mark_seen(fingerprint, "") then return "seen" end
  set_created()
  ledger.token = math.max(ledger.token, now * 1024) + 1
  local waits = whole(ledger.token) .. "\n" .. entry(host, priority, 0, 0, 0, stored_record(record))
  redis.call("ZADD", key.delayed, whole(until_ + ahead + NEVER), waits)
  redis.call("ZADD", key.groups, whole(until_ + ahead), group)
  redis.call(
    "HSET", group_key(group), "waits", waits, "due", whole(due > 0 and due + ahead or 0), "lenient", lenient,
    "closed", "0", "calls", "0", "left", "0", "failed", "0"
  )
  ledger.accepted = ledger.accepted + 1
  return "added"
end

local reply = open()
finish()
remember(reply)
return reply
