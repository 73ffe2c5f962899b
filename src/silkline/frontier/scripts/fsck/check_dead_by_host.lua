#!lua flags=allow-oom
-- Check that the index of dead letters by host has every letter with its burial time, and nothing else. A bounded number per call.
-- Missing members are added, other members are deleted.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    repair (1 or ""), side (letter or index), cursor ("0" at first)
--
-- Returns {the next cursor, "" at the end, how many are wrong}. Letters without a burial time are not checked here.
local ledger_key, repair, side, cursor = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "keys"
--- @include "ledger"
--- @include "dead_by_host"
--- @include "allow_oom"
local refusal = check_ledger()
if refusal then return refusal end
local BATCH = 500
local wrong = {}

-- Returns the members that the index should have; false if there is no letter, or no time.
local function expected_members(ids, letters)
  local times = #ids > 0 and redis.call("ZMSCORE", key.buried, unpack(ids)) or {}
  for i, id in ipairs(ids) do
    local host = letters[i] and string.match(letters[i], "^[^\n]*\n[^\n]*\n([^\n]*)\n")
    ids[i] = host and times[i] and index_member(host, times[i], id) or false
  end
  return ids
end

local function check_letters()
  local page, ids, letters, texts = redis.call("HSCAN", key.dead, cursor, "COUNT", BATCH), {}, {}, {}
  for i = 1, #page[2], 2 do
    ids[#ids + 1], letters[#letters + 1] = page[2][i], page[2][i + 1]
  end
  for _, text in ipairs(expected_members(ids, letters)) do
    if text then texts[#texts + 1] = text end
  end
  for i, score in ipairs(#texts > 0 and redis.call("ZMSCORE", key.dead_by_host, unpack(texts)) or {}) do
    if not score then wrong[#wrong + 1] = texts[i] end
  end
  if repair == "1" then
    for _, text in ipairs(wrong) do redis.call("ZADD", key.dead_by_host, 0, text) end
  end
  return page[1] == "0" and "" or page[1]
end

local function check_index()
  local start, ids = tonumber(cursor), {}
  local texts = redis.call("ZRANGE", key.dead_by_host, start, start + BATCH - 1)
  for i, text in ipairs(texts) do ids[i] = string.match(text, "%d+$") or "" end
  local letters = #ids > 0 and redis.call("HMGET", key.dead, unpack(ids)) or {}
  for i, text in ipairs(expected_members(ids, letters)) do
    if text ~= texts[i] then wrong[#wrong + 1] = texts[i] end
  end
  if repair == "1" and #wrong > 0 then redis.call("ZREM", key.dead_by_host, unpack(wrong)) end
  local gone = repair == "1" and #wrong or 0
  return #texts == BATCH and whole(start + BATCH - gone) or ""
end

if repair == "1" then allow_oom(key.ledger) end
local next_cursor = (side == "letter" and check_letters or check_index)()
return { next_cursor, #wrong }
