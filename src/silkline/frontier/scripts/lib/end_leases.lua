-- Ends leases, and collects the tokens that were not held.
-- Needs: key.
local lost = {}

-- Ends the leases of these tokens. Returns their entries, false for tokens that were not held.
local function end_leases(tokens)
  if #tokens == 0 then return {} end
  local texts = redis.call("HMGET", key.leased, unpack(tokens))
  local held, ended = redis.call("HDEL", key.leased, unpack(tokens)), {}
  redis.call("ZREM", key.leases, unpack(tokens))
  local twice = held < #tokens -- or some were not held; a token that is passed twice ends once
  for i, token in ipairs(tokens) do
    if twice and ended[token] then texts[i] = false end
    if twice then ended[token] = true end
    if not texts[i] then lost[#lost + 1] = token end
  end
  return texts
end
