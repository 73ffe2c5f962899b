#!lua flags=allow-oom
-- Check that every dead letter is listed by its host, as of the time it was buried, and nothing else is. A bounded number per
-- call. What is not listed gets listed; what should not be is struck off.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    repair (1 or ""), side (letter or listed), cursor ("0" at first)
--
-- Returns {the next cursor, "" at the end, how many are wrong}. Of a letter without a time of burial nothing is said here.
local root, repair, side, cursor = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "keys"
--- @include "ledger"
--- @include "listed"
local refusal = read_ledger()
if refusal then return refusal end
local BATCH = 500
local wrong = {}

-- How letters ought to be listed; false where there is no letter, or no time.
local function as_they_are(ids, letters)
  local times = #ids > 0 and redis.call("ZMSCORE", key.buried, unpack(ids)) or {}
  for i, id in ipairs(ids) do
    local host = letters[i] and string.match(letters[i], "^[^\n]*\n[^\n]*\n([^\n]*)\n")
    ids[i] = host and times[i] and listed_as(host, times[i], id) or false
  end
  return ids
end

local function check_letters()
  local page, ids, letters, texts = redis.call("HSCAN", key.dead, cursor, "COUNT", BATCH), {}, {}, {}
  for i = 1, #page[2], 2 do
    ids[#ids + 1], letters[#letters + 1] = page[2][i], page[2][i + 1]
  end
  for _, text in ipairs(as_they_are(ids, letters)) do
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

local function check_listed()
  local start, ids = tonumber(cursor), {}
  local texts = redis.call("ZRANGE", key.dead_by_host, start, start + BATCH - 1)
  for i, text in ipairs(texts) do ids[i] = string.match(text, "%d+$") or "" end
  local letters = #ids > 0 and redis.call("HMGET", key.dead, unpack(ids)) or {}
  for i, text in ipairs(as_they_are(ids, letters)) do
    if text ~= texts[i] then wrong[#wrong + 1] = texts[i] end
  end
  if repair == "1" and #wrong > 0 then redis.call("ZREM", key.dead_by_host, unpack(wrong)) end
  local gone = repair == "1" and #wrong or 0
  return #texts == BATCH and whole(start + BATCH - gone) or ""
end

if repair == "1" then redis.call("HDEL", key.ledger, "") end -- a first write that frees memory, for old servers, see README
local following = (side == "letter" and check_letters or check_listed)()
return { following, #wrong }
