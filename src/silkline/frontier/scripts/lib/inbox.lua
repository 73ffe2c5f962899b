-- The messages of an inbox that are taken. `messages` has each of them by its id, "ticket:number". `taken` has until when they are
-- held: a group "ticket*count" for all messages of one call, and single messages whose time is another than that of their group.
-- Needs: root.
local taken_key, messages_key = root .. ":taken", root .. ":messages"

-- Returns ids that are given one per line.
local function read_ids(lines)
  local ids = {}
  for id in string.gmatch(lines, "[^\n]+") do ids[#ids + 1] = id end
  return ids
end

-- Returns whether a member of `taken` is a group, as ticket and count.
local function read_group(member)
  local ticket, count = string.match(member, "^(.*)%*(%d+)$")
  return ticket, tonumber(count)
end

-- Forgets messages.
local function forget_messages(ids)
  redis.call("ZREM", taken_key, unpack(ids))
  local stored = redis.call("HDEL", messages_key, unpack(ids))
  if redis.call("HLEN", messages_key) == 0 then redis.call("DEL", taken_key) end
  return stored
end
