#!lua flags=allow-oom
-- Take messages from a key of the user: first messages that were taken too long ago without being acknowledged, then new ones. They
-- are stored as taken until they are acknowledged, rejected, or taken again.
--
-- KEYS[1] inbox  -  LIST (from the left), SET (any) or ZSET (the highest score first)
-- ARGV    clock, root of the keys for the taken messages, kind (list, set or zset), wanted, hold_ms, ticket: the name of this call
--
-- Returns pairs of id and message, or the type of the key if it is not of that kind.
local inbox, clock, root, kind, wanted, hold_ms, ticket =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
--- @include "clock"
--- @include "migration"
--- @include "allow_oom"
local refusal = refuse_migration(root)
if refusal then return refusal end
local taken_key, messages_key = root .. ":taken", root .. ":messages"
local POP = { list = "LPOP", set = "SPOP", zset = "ZPOPMAX" }
local reply = {}

local function add_messages(ids)
  if #ids == 0 then return end
  local messages = redis.call("HMGET", messages_key, unpack(ids))
  for i, id in ipairs(ids) do
    if messages[i] then
      reply[#reply + 1] = id
      reply[#reply + 1] = messages[i]
    end
  end
end

-- Returns the messages that this call took before, if its reply was lost and it is sent again.
local function replay()
  local ids = {}
  for i = 1, wanted do ids[i] = ticket .. ":" .. i end
  add_messages(ids)
end

local function take_again()
  local late = redis.call("ZRANGEBYSCORE", taken_key, "-inf", now, "LIMIT", 0, wanted)
  for _, id in ipairs(late) do redis.call("ZADD", taken_key, "XX", now + hold_ms, id) end
  add_messages(late)
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
allow_oom(messages_key)
take_again()
if #reply < wanted * 2 and found == kind then take_new(wanted - #reply / 2) end
return reply
