#!lua flags=allow-oom
-- Move dead letters that match a filter back to their queues, with no attempts and strikes, or delete them. Cancelled calls of tasks are
-- revived only if the filter has an id or a reason.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, slot, call, skip, most, oldest, newest (ms, or -inf and +inf), host, reason (a substring), status,
--         id, action (revive or purge)
--
-- Returns "read ended": how many letters were read, and how many of them were revived or purged.
local ledger_key, clock, slot, call = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local skip, most, oldest, newest = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
local only_host, only_reason, only_status, only_id, action = ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "idempotency"
--- @include "hosts"
--- @include "entries"
--- @include "dead_store"
--- @include "server_time"
--- @include "dead_match"
local refusal = check_ledger()
if refusal then return refusal end
local stored = replay()
if stored then return stored end

local CANCELLED = "cancelled by its caller"
local skips_cancelled = action == "revive" and only_reason == "" and only_id == ""

local function end_letter(id, reason, text)
  local host, priority, _, _, _, record = read_entry(text)
  remove_dead(id, reason, host)
  if action == "purge" or ledger.state == "cancelled" then
    ledger.discarded = ledger.discarded + 1
  elseif push(host, priority, { record }, 1) then
    wake(host, priority)
  end
end

oldest, newest = shard_time(oldest), shard_time(newest)
local found, read = matching_letters()
local ended = 0
for _, pair in ipairs(found) do
  local reason, _, text = read_letter(pair[2])
  if reason ~= CANCELLED or not skips_cancelled then
    end_letter(pair[1], reason, text)
    ended = ended + 1
  end
end
finish()
local reply = read .. " " .. ended
remember(reply)
return reply
