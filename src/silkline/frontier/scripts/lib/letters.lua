-- Dead letters that match a filter, newest first. An empty string filters nothing.
-- Needs: key; skip, most, oldest, newest, only_host, only_reason, only_status, only_id.

-- reason, status and the entry of a dead letter
local function read_letter(letter)
  local reason, status, at = string.match(letter, "^([^\n]*)\n([^\n]*)\n()")
  return reason, status, string.sub(letter, at)
end

local function matches(letter)
  local reason, status, text = read_letter(letter)
  return (only_host == "" or string.match(text, "^[^\n]*") == only_host)
    and (only_reason == "" or string.find(string.lower(reason), string.lower(only_reason), 1, true))
    and (only_status == "" or status == only_status)
end

-- Looks at no more than `most` letters after `skip`; answers the ids that match, and how many were looked at.
local function matching_letters()
  local ids
  if only_id == "" then
    ids = redis.call("ZREVRANGEBYSCORE", key.buried, newest, oldest, "LIMIT", skip, most)
  else
    local buried = tonumber(redis.call("ZSCORE", key.buried, only_id) or "")
    local matches_age = buried and (newest == "+inf" or buried <= tonumber(newest)) and (oldest == "-inf" or buried >= tonumber(oldest))
    ids = matches_age and { only_id } or {}
  end
  if #ids == 0 then return {}, 0 end
  local letters, found = redis.call("HMGET", key.dead, unpack(ids)), {}
  for i, id in ipairs(ids) do
    if letters[i] and matches(letters[i]) then found[#found + 1] = { id, letters[i] } end
  end
  return found, #ids
end
