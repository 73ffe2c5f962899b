-- Reasons and their groups: addresses in a reason tell letters apart that died of the same. filters.py knows it too.
local LONGEST_NAME = 200

local function reason_group(reason)
  local group = string.gsub(reason, "https?://%S+", "\226\128\166")
  if group == "" then return "(no reason)" end
  if #group <= LONGEST_NAME then return group end
  return (string.gsub(string.sub(group, 1, LONGEST_NAME), "[\192-\255][\128-\191]*$", ""))
end
