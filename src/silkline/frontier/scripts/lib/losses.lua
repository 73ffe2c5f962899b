-- Detects lost writes: after a failover or restart, a server may lack its last writes. Clients name the last calls that the shard has
-- acknowledged to them. A shard that does not know them has lost writes, and so has one that receives a token greater than any that
-- it has issued. It counts the losses and stores the time of the last one.
-- Needs: root, key, ledger, now, ahead.
--- @include "allow_oom"
local LOST_TOGETHER = 30000 -- ms: several clients notice the same loss; within this time it counts as one

local function note_loss()
  allow_oom(key.ledger)
  local known = tonumber(redis.call("HGET", key.ledger, "lost_at") or 0)
  if math.abs(now - ahead - known) > LOST_TOGETHER then redis.call("HINCRBY", key.ledger, "losses", 1) end
  redis.call("HSET", key.ledger, "lost_at", whole(now - ahead))
end

-- Returns whether the shard does not know one of these calls ("slot number", one per line). If so, records the loss.
local function has_lost(relied)
  for slot, number in string.gmatch(relied, "(%S+) (%S+)") do
    if redis.call("GETRANGE", root .. ":once:" .. slot, 0, #number) ~= number .. " " then
      note_loss()
      return true
    end
  end
  return false
end

-- Records a loss if one of these tokens, which are not held, is greater than any that this shard has issued.
local function compare_tokens(tokens)
  if ledger.token == 0 then return end
  local soon = (now + 86400000) * 1024
  for _, token in ipairs(tokens) do
    local number = tonumber(string.match(token, "^%d+"))
    if number and number > ledger.token and number < soon then return note_loss() end
  end
end
