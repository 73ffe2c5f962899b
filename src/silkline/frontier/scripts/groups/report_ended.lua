#!lua flags=allow-oom
-- Note that calls of groups have ended. Groups that are complete end, and so do groups whose time is over: their calls become dead
-- letters. What was noted before, or belongs to a group that has ended, has no effect.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, then for each call that has ended: group, batch, number, outcome (d or f)
--
-- Returns how many groups have ended.
local ledger_key, clock = KEYS[1], ARGV[1]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "allow_oom"
--- @nest
--- @include "hosts"
--- @include "entries"
--- @include "dead_store"
--- @include "groups"
local refusal = check_ledger()
if refusal then return refusal end
allow_oom(key.hosts)
local MOST_OVERDUE = 100
local ended, order, noted = 0, {}, {} -- `noted`: what has ended, by group and batch; false for a group that has ended

for i = 2, #ARGV, 4 do
  local group, batch = ARGV[i], ARGV[i + 1]
  if noted[group] == nil then
    noted[group] = exists(group) and {}
    if noted[group] then order[#order + 1] = group end
  end
  if noted[group] then
    noted[group][batch] = noted[group][batch] or {}
    table.insert(noted[group][batch], { tonumber(ARGV[i + 2]), ARGV[i + 3] })
  end
end
for _, group in ipairs(order) do
  for batch, outcomes in pairs(noted[group]) do mark_ended(group, batch, outcomes) end
end
table.sort(order) -- notes come in any order
for _, group in ipairs(order) do
  if end_if_complete(group) then ended = ended + 1 end
end
for _, group in ipairs(redis.call("ZRANGEBYSCORE", key.groups, "-inf", whole(now), "LIMIT", 0, MOST_OVERDUE)) do
  local closed, left, calls = unpack(redis.call("HMGET", group_key(group), "closed", "left", "calls"))
  local reason = "expired: " .. (left or 0) .. " of the " .. (calls or 0) .. " calls that it waited for have not ended"
  if closed == "0" then reason = "expired: its group was not closed" end
  end_group(group, reason)
  ended = ended + 1
end
keep_dead_limit()
finish()
return ended
