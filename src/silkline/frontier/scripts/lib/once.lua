-- A call that is sent twice answers twice but acts once: its reply is kept under the caller's slot.
-- Needs: root, slot, call.
local KEEP_REPLY_MS = 300000
local once_key = root .. ":once:" .. slot

-- The reply of this very call, if it ran before; nil otherwise.
local function replay()
  local kept = redis.call("GET", once_key)
  if kept and string.sub(kept, 1, #call + 1) == call .. " " then return string.sub(kept, #call + 2) end
  return nil
end

local function remember(reply)
  redis.call("SET", once_key, call .. " " .. reply, "PX", KEEP_REPLY_MS)
end
