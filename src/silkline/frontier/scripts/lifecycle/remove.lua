#!lua flags=allow-oom
-- Delete a shard, a bounded number of queues and buckets per call; the ledger is deleted last. The first call cancels the crawl on
-- this shard. Replies that are stored for callers (`once`) expire by themselves.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    (none)
--
-- Returns "more", or "gone" if nothing is left.
local ledger_key = KEYS[1]
--- @include "keys"
--- @include "ledger"
--- @include "lanes"
--- @include "buckets"
--- @include "bloom"
local refusal = refuse_migration(root)
if refusal then return refusal end
if redis.call("EXISTS", key.ledger) == 0 then return "gone" end
refusal = check_ledger()
if refusal then return refusal end
local room = 500

local function drop_queues(hosts)
  for _, host in ipairs(hosts) do drop_lanes(host) end
  room = room - #hosts
  return #hosts > 0
end

-- A host with requests is in `ready` or `waiting`, or it is in progress (`hosts`) or paused (`policies`).
local function drop_hosts()
  for _, sorted in ipairs({ key.ready, key.waiting }) do
    local hosts = room > 0 and redis.call("ZRANGE", sorted, 0, room - 1) or {}
    if drop_queues(hosts) then redis.call("ZREM", sorted, unpack(hosts)) end
  end
  for _, hash in ipairs({ key.hosts, key.policies }) do
    local hosts = room > 0 and redis.call("HRANDFIELD", hash, room) or {}
    if drop_queues(hosts) then redis.call("HDEL", hash, unpack(hosts)) end
  end
end

local function drop_buckets()
  local names = {}
  while #names < room and ledger.buckets > 0 do
    names[#names + 1] = bucket_key(ledger.buckets * 2 - 1)
    names[#names + 1] = bucket_key(ledger.buckets * 2 - 2)
    ledger.buckets = ledger.buckets - 1
  end
  room = room - #names
  if #names > 0 then redis.call("UNLINK", unpack(names)) end
end

local function drop_groups()
  for _, group in ipairs(room > 0 and redis.call("ZRANGE", key.groups, 0, room - 1) or {}) do
    redis.call("UNLINK", root .. ":group:" .. group)
    redis.call("ZREM", key.groups, group)
    room = room - 1
  end
end

local function drop_layers()
  while room > 0 and ledger.seen == "bloom" and ledger.layers > 0 do
    ledger.layers = ledger.layers - 1
    local blocks, name = layer_shape(ledger.layers).blocks, root .. ":bloom:" .. ledger.layers
    if not blocks then redis.call("UNLINK", name) end
    for block = 0, (blocks or 0) - 1 do redis.call("UNLINK", name .. ":" .. block) end
    room = room - (blocks or 1)
  end
end

local function drop_the_rest()
  for _, name in pairs(key) do redis.call("UNLINK", name) end
  redis.call("PUBLISH", key.bell, "0")
end

drop_hosts()
if room > 0 then drop_buckets() end
drop_layers()
drop_groups()
if room > 0 then
  drop_the_rest()
  return "gone"
end
redis.call("HSET", key.ledger, "state", "cancelled")
write_ledger()
return "more"
