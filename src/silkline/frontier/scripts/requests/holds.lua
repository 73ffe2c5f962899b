#!lua flags=no-writes
-- Check whether a page may be on this shard, before a search for it.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    host, fingerprints of the page…
--
-- Returns 1 if one of the fingerprints was seen, requests of the host wait, or requests of any host are delayed, leased or dead; else 0.
local ledger_key, host = KEYS[1], ARGV[1]
--- @include "keys"
--- @include "ledger"
--- @include "lanes"
--- @include "seen"
local refusal = check_ledger()
if refusal then return refusal end
if redis.call("EXISTS", key.delayed, key.leased, key.buried) > 0 then return 1 end
if ledger.seen_count > 0 then
  for i = 2, #ARGV do
    if was_seen(ARGV[i]) then return 1 end
  end
end
return ledger.queued > 0 and top_lane(host) and 1 or 0
