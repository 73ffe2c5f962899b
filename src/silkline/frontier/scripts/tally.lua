#!lua flags=no-writes
-- Count dead letters that match a filter, by reason and by host, a bounded number of letters per call.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    skip, most, oldest, newest (ms, or -inf and +inf), host, reason (a part of it), status, id
--
-- Returns {how many were looked at, how many match, {reason, letters …}, {host, letters …}}; reasons as their groups.
local root, skip, most, oldest, newest = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local only_host, only_reason, only_status, only_id = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
--- @include "keys"
--- @include "ledger"
--- @include "letters"
local refusal = read_ledger()
if refusal then return refusal end
local reasons, hosts, group_of = {}, {}, {} -- many letters have one reason: its group is found once

local function listed(counts)
  local list = {}
  for name, count in pairs(counts) do
    list[#list + 1] = name
    list[#list + 1] = count
  end
  return list
end

local found, looked = matching_letters()
for _, pair in ipairs(found) do
  local reason, _, host = string.match(pair[2], FIRST_LINES)
  if not group_of[reason] then group_of[reason] = reason_group(reason) end
  local group = group_of[reason]
  reasons[group] = (reasons[group] or 0) + 1
  hosts[host] = (hosts[host] or 0) + 1
end
return { looked, #found, listed(reasons), listed(hosts) }
