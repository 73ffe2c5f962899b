#!lua flags=allow-oom
-- Set the policy of one host: its delay, concurrency and burst, a block until a time, a pause, the delay of robots.txt.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, host, delay in ms, concurrency, burst, blocked until (ms of the server's clock), paused (1), crawl delay of
--         robots.txt; "" keeps a value, "-" resets it to the crawl's default; setting the delay also ends a slow-down
--
-- Returns the host's policy as it is stored: five words, "-" for a default; then, if one of them is set, three more: the crawl
-- delay of robots.txt, the slowed delay, and the time since which it applies.
local ledger_key, clock, host = KEYS[1], ARGV[1], ARGV[2]
local changes = { ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8] }
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "hosts"
--- @include "allow_oom"
local refusal = check_ledger()
if refusal then return refusal end
local words = own_policy(host)
for i, change in ipairs(changes) do
  if change ~= "" then words[i] = change end
  if i == BLOCKED and tonumber(change) then words[i] = whole(change + ahead) end
end
if changes[1] ~= "" then words[SLOWED], words[SINCE] = "-", "-" end

-- Returns `spent` for a changed delay: the remaining time changes in proportion.
local function rescaled(spent, before, after)
  if spent <= now or before == 0 then return spent end
  return math.ceil(now + (spent - now) * after / before)
end

-- robots.txt may ask for a longer delay than the one with which it was claimed. Then the first page waits for the longer delay, from
-- now on: `spent` does not contain the time at which robots.txt was fetched.
local function rest_after_robots(leased, before, after)
  return leased > 0 and tonumber(changes[6]) and after > before and now + after or 0
end

allow_oom(key.policies)
local before = policy(host)
local stored_text = store_policy(host, words)
local after = policy(host)
local leased, spent, stored = standing(host)
local resting = not stored and redis.call("ZSCORE", key.idle, host)
if resting then
  redis.call("ZADD", key.idle, rescaled(tonumber(resting), before, after), host)
else
  spent = math.max(rescaled(spent, before, after), rest_after_robots(leased, before, after))
  place(host, leased, spent, top_lane(host))
end
finish()
return stored_text
