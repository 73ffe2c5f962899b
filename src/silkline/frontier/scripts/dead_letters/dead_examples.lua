#!lua flags=no-writes
-- Find the newest dead letter of each of some groups of reasons, in a bounded number of letters per call.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    skip, most, name of a group, name of another …
--
-- Returns {letters read, name, id, buried_ms, letter, name, id, buried_ms, letter …}, without the groups that have none among them.
local ledger_key, skip, most = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
--- @include "keys"
--- @include "ledger"
--- @include "server_time"
--- @include "reasons"
--- @include "dead_by_host"
local refusal = check_ledger()
if refusal then return refusal end
local wanted, missing = {}, #ARGV - 2
for i = 3, #ARGV do wanted[ARGV[i]] = true end
local ids = ids_of("", "-inf", "+inf", skip, most)
local reply = { #ids }
local letters = #ids > 0 and redis.call("HMGET", key.dead, unpack(ids)) or {}
for i, id in ipairs(ids) do
  if missing == 0 then break end
  local reason, host = string.match(letters[i] or "", "^([^\n]*)\n[^\n]*\n([^\n]*)")
  local name = reason and reason_group(reason, host)
  if name and wanted[name] then
    wanted[name], missing = nil, missing - 1
    reply[#reply + 1] = name
    reply[#reply + 1] = id
    reply[#reply + 1] = server_time(redis.call("ZSCORE", key.buried, id))
    reply[#reply + 1] = with_server_time(letters[i], 6)
  end
end
return reply
