-- Notifies the processes that wait for the result of a request: there is one, or there will be none.
-- Needs: root.
local MOST_ANNOUNCED = 4096 -- bytes of a result that is published; a longer one is read from its shard

-- `text`: what to publish after the id. If no process waits, this is one read.
local function announce(id, text)
  local awaited_key = root .. ":awaited:" .. id
  local channels = redis.call("GET", awaited_key)
  if not channels then return end
  redis.call("DEL", awaited_key)
  if #text > MOST_ANNOUNCED then text = "+" end
  for channel in string.gmatch(channels, "%S+") do redis.call("PUBLISH", channel, id .. "\n" .. text) end
end
