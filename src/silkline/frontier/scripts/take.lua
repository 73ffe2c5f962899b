#!lua flags=allow-oom
-- Take messages from a key of the user's own: first those that somebody took and never saw through, then new ones.
-- They are kept as taken until `done` or, should the taker die, until they are taken again.
--
-- KEYS[1] inbox  -  LIST (from the left), SET (any) or ZSET (the highest score first)
-- ARGV    clock, root of the keys for what is taken, kind (list, set or zset), wanted, hold_ms, ticket: the name of this call
--
-- Returns pairs of id and message, or the type of the key when it is not of that kind.
local inbox, clock, root, kind, wanted, hold_ms, ticket =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
--- @include "clock"
local taken_key, messages_key = root .. ":taken", root .. ":messages"
local POP = { list = "LPOP", set = "SPOP", zset = "ZPOPMAX" }
local reply = {}

local function answer(ids)
  if #ids == 0 then return end
  local messages = redis.call("HMGET", messages_key, unpack(ids))
  for i, id in ipairs(ids) do
    if messages[i] then
      reply[#reply + 1] = id
      reply[#reply + 1] = messages[i]
    end
  end
end

-- What this very call took, if its answer got lost and it is sent again.
local function replay()
  local ids = {}
  for i = 1, wanted do ids[i] = ticket .. ":" .. i end
  answer(ids)
end

local function take_again()
  local late = redis.call("ZRANGEBYSCORE", taken_key, "-inf", now, "LIMIT", 0, wanted)
  for _, id in ipairs(late) do redis.call("ZADD", taken_key, "XX", now + hold_ms, id) end
  answer(late)
end

local function take_new(room)
  local popped = redis.call(POP[kind], inbox, room) or {}
  local step = kind == "zset" and 2 or 1 -- members come with their scores
  for i = 1, #popped, step do
    local id = ticket .. ":" .. ((i - 1) / step + 1)
    redis.call("HSET", messages_key, id, popped[i])
    redis.call("ZADD", taken_key, now + hold_ms, id)
    reply[#reply + 1] = id
    reply[#reply + 1] = popped[i]
  end
end

local found = redis.call("TYPE", inbox).ok
if found ~= kind and found ~= "none" then return found end
replay()
if #reply > 0 then return reply end
redis.call("HDEL", messages_key, "") -- a first write that frees memory lets old servers go on when memory is short
take_again()
if #reply < wanted * 2 and found == kind then take_new(wanted - #reply / 2) end
return reply
