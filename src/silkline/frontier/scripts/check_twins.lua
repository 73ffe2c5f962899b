#!lua flags=allow-oom
-- Check that what is kept twice is: leases with their expiry, dead letters with the time of their burial. A bounded number per
-- call. What lacks its time is given one, so that it is rescued or found; a time of nothing is forgotten.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, repair (1 or ""), twin (lease or letter), side (text or time), cursor ("0" at first)
--
-- Returns {the next cursor, "" at the end, how many were checked, how many lack the other}.
local root, clock, repair, twin, side, cursor = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
--- @include "steady"
--- @include "keys"
--- @include "ledger"
local refusal = read_ledger()
if refusal then return refusal end
local BATCH = 500
local hash, sorted = key.leased, key.leases
if twin == "letter" then
  hash, sorted = key.dead, key.buried
end
local lacking = {}

local function check_texts()
  local page, ids = redis.call("HSCAN", hash, cursor, "COUNT", BATCH), {}
  for i = 1, #page[2], 2 do ids[#ids + 1] = page[2][i] end
  local times = #ids > 0 and redis.call("ZMSCORE", sorted, unpack(ids)) or {}
  for i, id in ipairs(ids) do
    if not times[i] then lacking[#lacking + 1] = id end
  end
  if repair == "1" then
    for _, id in ipairs(lacking) do redis.call("ZADD", sorted, now, id) end
  end
  return page[1] == "0" and "" or page[1], #ids
end

local function check_times()
  local start = tonumber(cursor)
  local ids = redis.call("ZRANGE", sorted, start, start + BATCH - 1)
  local texts = #ids > 0 and redis.call("HMGET", hash, unpack(ids)) or {}
  for i, id in ipairs(ids) do -- one long member is no lease, see found
    if not texts[i] and string.sub(id, 1, 1) ~= "-" then lacking[#lacking + 1] = id end
  end
  if repair == "1" and #lacking > 0 then redis.call("ZREM", sorted, unpack(lacking)) end
  local gone = repair == "1" and #lacking or 0
  return #ids == BATCH and whole(start + BATCH - gone) or "", #ids
end

local following, checked
if side == "text" then
  following, checked = check_texts()
else
  following, checked = check_times()
end
return { following, checked, #lacking }
