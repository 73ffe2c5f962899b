#!lua flags=no-writes
-- Count dead letters that match a filter, by reason and by host, a bounded number of letters per call.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    skip, most, oldest, newest (ms, or -inf and +inf), host, reason (a substring), status, id
--
-- Returns {letters read, letters that match, {reason, letters …}, {host, letters …}}; reasons are grouped, see reasons.
local ledger_key, skip, most, oldest, newest = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local only_host, only_reason, only_status, only_id = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
--- @include "keys"
--- @include "ledger"
--- @include "server_time"
--- @include "dead_match"
local refusal = check_ledger()
if refusal then return refusal end
local reasons, hosts, group_of = {}, {}, {} -- group_of caches the group of each reason and host

local function to_pairs(counts)
  local list = {}
  for name, count in pairs(counts) do
    list[#list + 1] = name
    list[#list + 1] = count
  end
  return list
end

oldest, newest = shard_time(oldest), shard_time(newest)
local found, read = matching_letters()
for _, pair in ipairs(found) do
  local reason, _, host = string.match(pair[2], FIRST_LINES)
  local letter = host .. "\n" .. reason
  if not group_of[letter] then group_of[letter] = reason_group(reason, host) end
  local group = group_of[letter]
  reasons[group] = (reasons[group] or 0) + 1
  hosts[host] = (hosts[host] or 0) + 1
end
return { read, #found, to_pairs(reasons), to_pairs(hosts) }
