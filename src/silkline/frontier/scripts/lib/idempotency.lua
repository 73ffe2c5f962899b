-- A call that is sent twice runs once: its reply is stored under the caller's slot, and returned again.
-- Needs: root, slot, call.
local KEEP_REPLY_MS = 300000
local once_key = root .. ":once:" .. slot

-- Returns the reply of this call if it ran before, else nil.
local function replay()
  local stored = redis.call("GET", once_key)
  if stored and string.sub(stored, 1, #call + 1) == call .. " " then return string.sub(stored, #call + 2) end
  return nil
end

local function remember(reply)
  redis.call("SET", once_key, call .. " " .. reply, "PX", KEEP_REPLY_MS)
end
