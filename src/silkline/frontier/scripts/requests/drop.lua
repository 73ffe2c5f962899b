#!lua flags=allow-oom
-- Delete waiting requests that `requests` has listed, or make them dead letters. Those that have moved on since then are not touched.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, slot, call, reason, references…  -  each with its state before it, as "delayed:due:place:number"
--         reason is that of the dead letters; "" deletes the requests
--
-- Returns how many were deleted or became dead letters.
local ledger_key, clock, slot, call, reason = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "idempotency"
--- @include "allow_oom"
--- @include "hosts"
--- @include "entries"
--- @include "dead_store"
--- @include "find_listed"
local refusal = check_ledger()
if refusal then return refusal end
local stored = replay()
if stored then return stored end
allow_oom(key.hosts)
local DROPPED = "\29dropped" -- no request is stored like this
local queues, delayed = {}, {}

local function end_one(host, priority, attempts, doubt, first, record)
  if reason == "" then return note_ends({ entry(host, priority, attempts, doubt, first, record) }, FAILED) end
  ledger.token = math.max(ledger.token, now * 1024) + 1
  first = first > 0 and first or now
  store_dead(whole(ledger.token), reason, "", host, entry(host, priority, attempts, strikes_of(doubt), first, record))
end

local function end_queued(host, lane, item)
  if is_untried(item) then return end_one(host, lane, 0, 0, 0, item) end
  end_one(host, lane, read_queued(item))
end

-- Removes the items at these indexes from a queue. They are marked first, so that the queue is gone through once. Returns how many.
local function remove_items(host, lane, indexes)
  local lane_key, count, first, last = queue_key(lane, host), 0, math.huge, 0
  for index in pairs(indexes) do
    if reason ~= "" or ledger.watched > now then end_queued(host, lane, redis.call("LINDEX", lane_key, index)) end
    redis.call("LSET", lane_key, index, DROPPED)
    count, first, last = count + 1, math.min(first, index), math.max(last, index)
  end
  if count == 0 then return 0 end
  local from_end = redis.call("LLEN", lane_key) - first < last
  return redis.call("LREM", lane_key, from_end and -count or count, DROPPED)
end

for i = 5, #ARGV do -- all are found before the first is removed, so that the others are where they were
  find_queued_reference(ARGV[i], queues)
  local member = read_delayed_reference(ARGV[i])
  if member then delayed[#delayed + 1] = member end
end

if reason ~= "" or ledger.watched > now then
  for _, member in ipairs(delayed) do end_one(read_entry(string.match(member, "^%d+\n(.*)$"))) end
end
local dropped = #delayed > 0 and redis.call("ZREM", key.delayed, unpack(delayed)) or 0
for host, lanes in pairs(queues) do
  local top = top_lane(host)
  for lane, indexes in pairs(lanes) do
    local removed = remove_items(host, lane, indexes)
    if removed > 0 and not has_requests(lane, host) then close_lane(host, tonumber(lane)) end
    ledger.queued = ledger.queued - removed
    dropped = dropped + removed
  end
  local left = top_lane(host)
  if left ~= top then
    local leased, spent = standing(host)
    place(host, leased, spent, left)
  end
end
if reason == "" then ledger.discarded = ledger.discarded + dropped end
keep_dead_limit()
finish()
remember(whole(dropped))
return whole(dropped)
