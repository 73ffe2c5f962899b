#!lua flags=allow-oom
-- Return dead letters that match a filter to their queues, to be counted anew, or purge them for good.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, slot, call, skip, most, oldest, newest (ms, or -inf and +inf), host, reason (a part of it), status,
--         id, what: revive or purge
--
-- Returns "looked ended": how many letters were looked at, and how many of them were revived or purged.
local root, clock, slot, call = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local skip, most, oldest, newest = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
local only_host, only_reason, only_status, only_id, what = ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]
--- @include "steady"
--- @include "keys"
--- @include "ledger"
--- @include "once"
--- @include "hosts"
--- @include "entries"
--- @include "graves"
--- @include "letters"
local refusal = read_ledger()
if refusal then return refusal end
local answered = replay()
if answered then return answered end

local found, looked = matching_letters()
for _, pair in ipairs(found) do
  local reason, _, text = read_letter(pair[2])
  local host, priority, _, _, _, record = read_entry(text)
  lift_dead(pair[1], reason, host)
  if what == "purge" or ledger.state == "cancelled" then
    ledger.discarded = ledger.discarded + 1
  elseif push(host, priority, { record }, 1) then
    wake(host, priority)
  end
end
finish()
answered = looked .. " " .. #found
remember(answered)
return answered
