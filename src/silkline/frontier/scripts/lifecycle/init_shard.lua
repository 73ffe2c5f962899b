#!lua flags=allow-oom
-- Create a shard: write its initial settings and counters, unless it has some. A shard that has lost its ledger is not created
-- again, because its requests would be lost.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    field, value…; without any, only checks
--
-- Returns "stands" if the shard exists, "founded" if it was created, "missing" if it was only checked and does not exist, or
-- "lost" if the shard has keys but no ledger. "stands" is followed by the highest priority that may be claimed now, unless that is 0.
local ledger_key, fields = KEYS[1], ARGV
--- @include "keys"
--- @include "migration"
--- @include "rank"

-- Adds a copy of the settings, which a shard of an earlier version lacks.
local function add_settings()
  for i = 1, #fields, 2 do
    if fields[i] == "settings" then redis.call("HSETNX", ledger_key, "settings", fields[i + 1]) end
  end
end

-- Returns the highest priority at which a host is ready; 0 if none is, or if the cluster is moving the shard.
local function ready_priority()
  local first = redis.pcall("ZRANGE", key.ready, 0, 0, "WITHSCORES")
  return first[2] and priority_of(tonumber(first[2])) or 0
end

if redis.call("EXISTS", ledger_key) == 1 then -- only one key, so this is correct while a cluster moves the shard
  add_settings()
  local priority = ready_priority()
  return priority == 0 and "stands" or "stands " .. priority
end
local refusal = refuse_migration(root)
if refusal then return refusal end
local names = {}
for _, name in pairs(key) do names[#names + 1] = name end
if redis.call("EXISTS", unpack(names)) > 0 then return "lost" end
if #fields == 0 then return "missing" end
redis.call("HSET", ledger_key, unpack(fields))
-- A long member makes Redis keep `leases` as a skiplist from the start: in its other form, for up to 128 short members,
-- adding and removing a hundred leases costs three times as much. It never expires.
redis.call("ZADD", key.leases, "+inf", string.rep("-", 65))
return "founded"
