-- Groups of reasons. Failures of code are grouped by place, exception and line: the message after "(books.py:14): " differs from
-- page to page. In other reasons, URLs, the host of the letter, IPv4 addresses and numbers of bytes are replaced by an ellipsis.
-- dead_letters.py has the same.
local LONGEST_NAME, ELLIPSIS = 200, "\226\128\166"

-- Returns whether the name that begins and ends here is a whole one.
local function is_whole_name(text, first, last)
  local before, after = string.sub(text, first - 1, first - 1), string.sub(text, last + 1)
  if first > 1 and string.find(before, "[%w_.-]") then return false end
  return not string.find(after, "^[%w_-]") and not string.find(after, "^%.%w")
end

-- Returns the text with an ellipsis for a host and its port.
local function without_host(text, host)
  local parts, at, from = {}, 1, 1
  while host ~= "" do
    local first, last = string.find(text, host, from, true)
    if not first then break end
    local _, port = string.find(text, "^:%d+", last + 1)
    if port and is_whole_name(text, first, port) then last = port end
    if is_whole_name(text, first, last) then
      parts[#parts + 1] = string.sub(text, at, first - 1) .. ELLIPSIS
      at, from = last + 1, last + 1
    else
      from = first + 1
    end
  end
  return table.concat(parts) .. string.sub(text, at)
end

-- Returns the place, exception and line with which the reason of a failure of code begins.
local function code_group(reason)
  return string.match(reason, "^([^()]+: [%w_.]+ %([^()]+:%d+%)): ")
end

-- Returns a group as it is stored.
local function name_of(group)
  if group == "" then return "(no reason)" end
  if #group <= LONGEST_NAME then return group end
  return (string.gsub(string.sub(group, 1, LONGEST_NAME), "[\192-\255][\128-\191]*$", ""))
end

-- Returns the group under which earlier versions counted a letter: with the host in its name.
local function former_group(reason)
  return name_of(code_group(reason) or (string.gsub(reason, "https?://%S+", ELLIPSIS)))
end

local function reason_group(reason, host)
  local code = code_group(reason)
  if code then return name_of(code) end
  local kind, text = string.match(reason, "^([^:]*: )(.*)$")
  text = without_host(string.gsub(text or reason, "https?://%S+", ELLIPSIS), host)
  text = string.gsub(text, "%d+%.%d+%.%d+%.%d+", ELLIPSIS)
  return name_of((kind or "") .. string.gsub(text, "%d[%d,]* bytes", ELLIPSIS .. " bytes"))
end
