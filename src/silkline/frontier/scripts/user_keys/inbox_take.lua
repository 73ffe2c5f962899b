#!lua flags=allow-oom
-- Take messages from a key of the user: first messages that were taken too long ago without being acknowledged, then new ones. They
-- are stored as taken until they are acknowledged, rejected, or taken again. A reply holds about REPLY_BYTES. A message of more than
-- MOST_BYTES is moved to the list of refused messages, and only its beginning is taken, as "\0oversized SIZE\0BEGINNING".
--
-- KEYS[1] inbox  -  LIST (from the left), SET (any), ZSET (the highest score first) or STREAM (the oldest entry first)
-- ARGV    clock, root of the keys for the taken messages, kind (list, set, zset, stream or any), wanted, hold_ms,
--         ticket: the name of this call
--
-- Returns {sizes, messages, id, message, id, message, …}, or the type of the key if it is not of that kind. New messages are in one
-- string, with their sizes as 4-byte integers in the other; their ids are "ticket:1", "ticket:2", …. Then follow messages that were
-- taken before. The message of a stream entry with one field is the value of the field; that of another entry is a JSON array of its
-- fields and values.
local inbox, clock, root, kind, wanted, hold_ms, ticket =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
--- @include "clock"
--- @include "migration"
--- @include "allow_oom"
--- @include "whole"
--- @include "inbox"
local refusal = refuse_migration(root)
if refusal then return refusal end
local MOST_BYTES, REPLY_BYTES, BEGINNING = 1048576, 4194304, 1000 -- inbox.py has MOST_BYTES
local MOST_GROUPS = 10 -- that a call dissolves
local refused_key = root .. ":refused"
local reply, bytes = { "", "" }, 0

local function add_messages(ids)
  if #ids == 0 then return end
  local messages = redis.call("HMGET", messages_key, unpack(ids))
  for i, id in ipairs(ids) do
    if messages[i] then
      reply[#reply + 1] = id
      reply[#reply + 1] = messages[i]
      bytes = bytes + #messages[i]
    end
  end
end

-- Returns the messages that this call took before, if its reply was lost and it is sent again.
local function replay()
  local ids = {}
  for i = 1, wanted do ids[i] = ticket .. ":" .. i end
  add_messages(ids)
end

-- Replaces a group whose time is over by its messages, except those that have a time of their own.
local function dissolve(group, ticket, count)
  local ids, due = {}, {}
  for i = 1, count do ids[i] = ticket .. ":" .. i end
  for i, message in ipairs(redis.call("HMGET", messages_key, unpack(ids))) do
    if message then
      due[#due + 1] = now
      due[#due + 1] = ids[i]
    end
  end
  redis.call("ZREM", taken_key, group)
  if #due > 0 then redis.call("ZADD", taken_key, "NX", unpack(due)) end
end

local function late_members(most)
  return redis.call("ZRANGEBYSCORE", taken_key, "-inf", now, "LIMIT", 0, most)
end

local function take_again()
  for _, member in ipairs(late_members(MOST_GROUPS)) do
    local ticket, count = read_group(member)
    if ticket then dissolve(member, ticket, count) end
  end
  local late = {}
  for _, member in ipairs(late_members(wanted)) do
    if not read_group(member) then late[#late + 1] = member end
  end
  for _, id in ipairs(late) do redis.call("ZADD", taken_key, "XX", now + hold_ms, id) end
  add_messages(late)
end

-- Returns every second element: the members that a sorted set returned with their scores.
local function members_of(pairs_of_both)
  local members = {}
  for i = 1, #pairs_of_both, 2 do members[#members + 1] = pairs_of_both[i] end
  return members
end

-- Removes entries from a stream and returns their messages.
local function pop_entries(count)
  local entries, ids, messages = redis.call("XRANGE", inbox, "-", "+", "COUNT", count), {}, {}
  for i, entry in ipairs(entries) do
    ids[i] = entry[1]
    messages[i] = #entry[2] == 2 and entry[2][2] or cjson.encode(entry[2])
  end
  if #ids > 0 then redis.call("XDEL", inbox, unpack(ids)) end
  return messages
end

-- Each removes up to `count` messages from the key and returns them.
local POP = {
  list = function(count) return redis.call("LPOP", inbox, count) or {} end,
  set = function(count) return redis.call("SPOP", inbox, count) end,
  zset = function(count) return members_of(redis.call("ZPOPMAX", inbox, count)) end,
  stream = pop_entries,
}

local function set_aside(message)
  redis.call("RPUSH", refused_key, message)
  return "\0oversized " .. #message .. "\0" .. string.sub(message, 1, BEGINNING)
end

-- Takes messages a few at a time, and one at a time after a large one, so that huge ones do not fill the memory of the server.
local function take_new(pop, room)
  local messages, sizes, stored, n, largest, prefix = {}, {}, {}, 0, MOST_BYTES, ticket .. ":"
  while n < room and bytes < REPLY_BYTES do
    local popped = pop(math.max(1, math.min(room - n, math.floor(MOST_BYTES / largest))))
    if #popped == 0 then break end
    largest = 1000
    for _, message in ipairs(popped) do
      largest = math.max(largest, #message)
      if #message > MOST_BYTES then message = set_aside(message) end
      n = n + 1
      messages[n], sizes[n], bytes = message, struct.pack("<I4", #message), bytes + #message
      stored[2 * n - 1], stored[2 * n] = prefix .. n, message
    end
  end
  if n == 0 then return end
  redis.call("HSET", messages_key, unpack(stored))
  redis.call("ZADD", taken_key, now + hold_ms, ticket .. "*" .. n)
  reply[1], reply[2] = table.concat(sizes), table.concat(messages)
end

local found = redis.call("TYPE", inbox).ok
local pop = POP[found]
if found ~= "none" and (not pop or (kind ~= "any" and found ~= kind)) then return found end
replay()
if #reply > 2 then return reply end
allow_oom(messages_key)
take_again()
local room = wanted - (#reply - 2) / 2
if pop and room > 0 then take_new(pop, room) end
return reply
