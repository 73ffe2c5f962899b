#!lua
-- Store requests as dead letters that were never in a queue, such as entries of a feed that cannot be read. The seen filter does not
-- change.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, slot, call, then for each request: host, reason, record (see created.lua)
--
-- Returns "stored", or "cancelled" if the crawl is cancelled: then nothing is stored.
local ledger_key, clock, slot, call = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "idempotency"
--- @include "hosts"
--- @include "entries"
--- @include "created"
--- @include "dead_store"
local refusal = check_ledger()
if refusal then return refusal end
local stored = replay()
if stored then return stored end
if ledger.state == "cancelled" then return "cancelled" end
set_created()
for i = 4, #ARGV, 3 do
  local host, reason, record = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  ledger.token = math.max(ledger.token, now * 1024) + 1
  store_dead(whole(ledger.token), reason, "", host, entry(host, 0, 0, 0, now, stored_record(record)))
  ledger.accepted = ledger.accepted + 1
end
keep_dead_limit()
finish()
remember("stored")
return "stored"
