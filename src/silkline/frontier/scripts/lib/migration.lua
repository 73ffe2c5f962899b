-- Checks whether the cluster is moving the slot of these keys to another node, key by key. During a move, a node may lack keys
-- that the other one has, and refuse commands in the middle of a script. So a script checks before its first write.
-- Both nodes refuse a command on two keys that do not exist during such a move, and at no other time.

-- Takes the prefix of the keys. Returns an error reply during a move, else nil.
local function refuse_migration(prefix)
  local probe = redis.pcall("EXISTS", prefix .. ":moving:1", prefix .. ":moving:2") -- these keys never exist
  if type(probe) ~= "table" or not string.find(probe.err, "non local key", 1, true) then return nil end
  return redis.error_reply("MIGRATING the cluster is moving the slot of " .. prefix .. " to another node")
end
