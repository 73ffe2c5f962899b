#!lua flags=allow-oom
-- Count the groups of dead letters anew, from the oldest letter on, a bounded number per call. Meanwhile letters after those
-- that are counted are not, see graves: so the counts are right at the end, whatever is buried and revived in between.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, start (1: from the beginning)
--
-- Returns {more or done, how many letters this call counted}.
local root, clock, start = KEYS[1], ARGV[1], ARGV[2]
--- @include "steady"
--- @include "keys"
--- @include "ledger"
--- @include "graves"
local refusal = read_ledger()
if refusal then return refusal end
local BATCH = 500
redis.call("HDEL", key.ledger, "") -- a first write that frees memory lets old servers go on when memory is short
if start == "1" then
  redis.call("UNLINK", key.dead_reasons, key.dead_hosts)
  ledger.counted, ledger.recount = 0, -1
elseif not ledger.recount then
  return { "done", 0 }
end

-- Letters of one moment are counted together, however many they are.
local after = "(" .. whole(ledger.recount)
local page = redis.call("ZRANGEBYSCORE", key.buried, after, "+inf", "WITHSCORES", "LIMIT", 0, BATCH)
local last = tonumber(page[#page])
local ids = last and redis.call("ZRANGEBYSCORE", key.buried, after, whole(last)) or {}
for _, id in ipairs(ids) do
  local reason, host = string.match(redis.call("HGET", key.dead, id) or "", "^([^\n]*)\n[^\n]*\n([^\n]*)\n")
  if reason then count_letter(reason, host) end
end
local more = #page == BATCH * 2 -- else these were the last ones
if more then
  redis.call("HSET", key.ledger, "recount", whole(last))
else
  redis.call("HDEL", key.ledger, "recount")
end
write_ledger()
return { more and "more" or "done", #ids }
