#!lua flags=allow-oom
-- Delete waiting requests that `requests` has listed. Those that have moved on since then are not touched.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, slot, call, references…  -  each with its state before it, as "delayed:due:place:number"
--
-- Returns how many were deleted.
local ledger_key, clock, slot, call = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "idempotency"
--- @include "hosts"
--- @include "listed"
local refusal = read_ledger()
if refusal then return refusal end
local stored = replay()
if stored then return stored end
local queued, delayed, tops = {}, {}, {}

for i = 4, #ARGV do -- all are found before the first is removed, so that the others are where they were
  local lane, host, item = read_queued_reference(ARGV[i])
  if item then queued[#queued + 1] = { lane, host, item } end
  local member = read_delayed_reference(ARGV[i])
  if member then delayed[#delayed + 1] = member end
end

local dropped = #delayed > 0 and redis.call("ZREM", key.delayed, unpack(delayed)) or 0
for _, found in ipairs(queued) do
  local lane, host, item = unpack(found)
  if tops[host] == nil then tops[host] = top_lane(host) end
  local removed = redis.call("LREM", queue_key(lane, host), 1, item)
  if removed > 0 and not has_requests(lane, host) then close_lane(host, tonumber(lane)) end
  ledger.queued = ledger.queued - removed
  dropped = dropped + removed
end
ledger.discarded = ledger.discarded + dropped
for host, top in pairs(tops) do
  local left = top_lane(host)
  if left ~= top then
    local leased, spent = standing(host)
    place(host, leased, spent, left)
  end
end
finish()
remember(whole(dropped))
return whole(dropped)
