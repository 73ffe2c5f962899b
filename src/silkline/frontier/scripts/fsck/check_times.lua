#!lua flags=allow-oom
-- Check that every lease has an expiry time and every dead letter a burial time, and that every such time belongs to one. A bounded
-- number per call. A missing time is set to now, so that the lease is rescued or the letter is listed; other times are deleted.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, repair (1 or ""), what (lease or letter), side (text or time), cursor ("0" at first)
--
-- Returns {the next cursor, "" at the end, how many were checked, how many were wrong}.
local ledger_key, clock, repair, what, side, cursor = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
local refusal = check_ledger()
if refusal then return refusal end
local BATCH = 500
local hash, sorted = key.leased, key.leases
if what == "letter" then
  hash, sorted = key.dead, key.buried
end
local wrong = {}

local function check_texts()
  local page, ids = redis.call("HSCAN", hash, cursor, "COUNT", BATCH), {}
  for i = 1, #page[2], 2 do ids[#ids + 1] = page[2][i] end
  local times = #ids > 0 and redis.call("ZMSCORE", sorted, unpack(ids)) or {}
  for i, id in ipairs(ids) do
    if not times[i] then wrong[#wrong + 1] = id end
  end
  if repair == "1" then
    for _, id in ipairs(wrong) do redis.call("ZADD", sorted, now, id) end
  end
  return page[1] == "0" and "" or page[1], #ids
end

local function check_times()
  local start = tonumber(cursor)
  local ids = redis.call("ZRANGE", sorted, start, start + BATCH - 1)
  local texts = #ids > 0 and redis.call("HMGET", hash, unpack(ids)) or {}
  for i, id in ipairs(ids) do -- the long member is not a lease, see init_shard
    if not texts[i] and string.sub(id, 1, 1) ~= "-" then wrong[#wrong + 1] = id end
  end
  if repair == "1" and #wrong > 0 then redis.call("ZREM", sorted, unpack(wrong)) end
  local gone = repair == "1" and #wrong or 0
  return #ids == BATCH and whole(start + BATCH - gone) or "", #ids
end

local next_cursor, checked
if side == "text" then
  next_cursor, checked = check_texts()
else
  next_cursor, checked = check_times()
end
return { next_cursor, checked, #wrong }
