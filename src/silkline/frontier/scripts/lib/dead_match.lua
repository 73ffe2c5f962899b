-- Dead letters that match a filter, newest first. An empty string filters nothing.
-- Needs: key; skip, most, oldest, newest, only_host, only_reason, only_status, only_id.
--- @include "reasons"
--- @include "dead_by_host"

-- Returns reason, status and entry of a dead letter.
local function read_letter(letter)
  local reason, status, at = string.match(letter, "^([^\n]*)\n([^\n]*)\n()")
  return reason, status, string.sub(letter, at)
end

local FIRST_LINES = "^([^\n]*)\n([^\n]*)\n([^\n]*)" -- reason, status, host

-- Returns whether a reason or the name of its group contains the one of the filter, ignoring case.
local function is_reason(reason, host)
  local part = string.lower(only_reason)
  return string.find(string.lower(reason), part, 1, true) or string.find(string.lower(reason_group(reason, host)), part, 1, true)
end

-- Most letters do not match. A search for plain strings excludes them before they are parsed.
local host_line, status_line, in_reason

local function prepare()
  host_line, status_line = "\n" .. only_host .. "\n", "\n" .. only_status .. "\n"
  in_reason = string.find(only_reason, "\226\128\166", 1, true) and "" or string.lower(only_reason)
end

local function may_match(letter)
  return (only_host == "" or string.find(letter, host_line, 1, true))
    and (only_status == "" or string.find(letter, status_line, 1, true))
    and (in_reason == "" or string.find(string.lower(letter), in_reason, 1, true))
end

local function matches(letter)
  if not may_match(letter) then return false end
  local reason, status, host = string.match(letter, FIRST_LINES)
  return (only_host == "" or host == only_host)
    and (only_reason == "" or is_reason(reason, host))
    and (only_status == "" or status == only_status)
end

-- Reads at most `most` letters after the first `skip`. Returns pairs of id and letter that match, and the number of letters read.
local function matching_letters()
  local ids
  if only_id == "" then
    ids = ids_of(only_host, oldest, newest, skip, most)
  else
    local buried = tonumber(redis.call("ZSCORE", key.buried, only_id) or "")
    local matches_age = buried and (newest == "+inf" or buried <= tonumber(newest)) and (oldest == "-inf" or buried >= tonumber(oldest))
    ids = matches_age and { only_id } or {}
  end
  if #ids == 0 then return {}, 0 end
  local letters, found = redis.call("HMGET", key.dead, unpack(ids)), {}
  prepare()
  for i, id in ipairs(ids) do
    if letters[i] and matches(letters[i]) then found[#found + 1] = { id, letters[i] } end
  end
  return found, #ids
end
