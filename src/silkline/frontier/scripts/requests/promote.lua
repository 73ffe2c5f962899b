#!lua flags=allow-oom
-- Make delayed requests that `requests` has listed due now: they move to the front of their queues. A suspect stays delayed, due now.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, slot, call, references…  -  each with its state before it, as "delayed:due:place:number"
--
-- Returns how many were promoted.
local ledger_key, clock, slot, call = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "idempotency"
--- @include "allow_oom"
--- @include "hosts"
--- @include "entries"
--- @include "due"
--- @include "find_listed"
local refusal = check_ledger()
if refusal then return refusal end
local stored = replay()
if stored then return stored end
allow_oom(key.hosts)
local found, known = {}, {}

for i = 4, #ARGV do
  local member = read_delayed_reference(ARGV[i])
  if member and not known[member] then
    known[member] = true
    found[#found + 1] = member
  end
end

local promoted, texts, suspects = sort_due(found)
promote_all(promoted, texts)
for _, member in ipairs(suspects) do
  redis.call("ZADD", key.delayed, whole(now), member)
  expect_at(now)
end
finish()
remember(whole(#found))
return whole(#found)
