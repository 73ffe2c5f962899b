#!lua flags=allow-oom
-- Count the groups of dead letters again, from the oldest letter on, a bounded number per call. Until it is complete, letters that
-- are newer than the last counted one are not counted (see dead_store), so letters can be buried and revived meanwhile.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, start (1: from the beginning)
--
-- Returns {more or done, number of letters that this call counted}.
local ledger_key, clock, start = KEYS[1], ARGV[1], ARGV[2]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "dead_store"
--- @include "allow_oom"
local refusal = check_ledger()
if refusal then return refusal end
local BATCH = 500
allow_oom(key.ledger)
if start == "1" then
  redis.call("UNLINK", key.dead_reasons, key.dead_hosts)
  ledger.counted, ledger.recount = 0, -1
elseif not ledger.recount then
  return { "done", 0 }
end

-- All letters with the same burial time are counted in one call.
local after = "(" .. whole(ledger.recount)
local page = redis.call("ZRANGEBYSCORE", key.buried, after, "+inf", "WITHSCORES", "LIMIT", 0, BATCH)
local last = tonumber(page[#page])
local ids = last and redis.call("ZRANGEBYSCORE", key.buried, after, whole(last)) or {}
for _, id in ipairs(ids) do
  local reason, host = string.match(redis.call("HGET", key.dead, id) or "", "^([^\n]*)\n[^\n]*\n([^\n]*)\n")
  if reason then count_letter(reason, host) end
end
local more = #page == BATCH * 2
if more then
  redis.call("HSET", key.ledger, "recount", whole(last))
else
  redis.call("HDEL", key.ledger, "recount")
end
write_ledger()
return { more and "more" or "done", #ids }
