-- Notifies the processes that wait for the result of a request: there is one, or there will be none.
-- Needs: root.
local MOST_ANNOUNCED = 4096 -- bytes of a result that is published; a longer one is read from its shard

-- `texts`: what to publish after each of these ids. If no process waits, this is one read.
local function announce(ids, texts)
  local awaited = {}
  for i, id in ipairs(ids) do awaited[i] = root .. ":awaited:" .. id end
  for i, channels in ipairs(redis.call("MGET", unpack(awaited))) do
    if channels then
      redis.call("DEL", awaited[i])
      local text = #texts[i] > MOST_ANNOUNCED and "+" or texts[i]
      for channel in string.gmatch(channels, "%S+") do redis.call("PUBLISH", channel, ids[i] .. "\n" .. text) end
    end
  end
end
