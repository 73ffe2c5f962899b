-- Groups of reasons. Failures of code are grouped by place, exception and line: the message after "(books.py:14): " differs from
-- page to page. In other reasons, URLs are replaced by an ellipsis. dead_letters.py has the same.
local LONGEST_NAME = 200

local function reason_group(reason)
  local code = string.match(reason, "^([^()]+: [%w_.]+ %([^()]+:%d+%)): ")
  local group = code or string.gsub(reason, "https?://%S+", "\226\128\166")
  if group == "" then return "(no reason)" end
  if #group <= LONGEST_NAME then return group end
  return (string.gsub(string.sub(group, 1, LONGEST_NAME), "[\192-\255][\128-\191]*$", ""))
end
