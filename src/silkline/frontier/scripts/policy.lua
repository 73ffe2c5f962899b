#!lua flags=allow-oom
-- Give one host a pace of its own, block it until a time, pause or resume it.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, host, delay in ms, concurrency, burst, blocked until (ms), paused (1), delay that robots.txt asks for;
--         of each "" leaves it as it is and "-" returns it to the crawl's default; a delay also ends a slow-down
--
-- Returns the host's policy as it is kept: five words, "-" for a default; then, if it has any of them, three more: the
-- delay that robots.txt asks for, the slowed delay, and since when it holds.
local root, clock, host = KEYS[1], ARGV[1], ARGV[2]
local changes = { ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8] }
--- @include "steady"
--- @include "keys"
--- @include "ledger"
--- @include "hosts"
local refusal = read_ledger()
if refusal then return refusal end
local words = own_policy(host)
for i, change in ipairs(changes) do
  if change ~= "" then words[i] = change end
end
if changes[1] ~= "" then words[SLOWED], words[SINCE] = "-", "-" end

-- Until when the host's pace is spent, once it has another delay: what is left of its rest shrinks or grows like it.
local function rescaled(spent, before, after)
  if spent <= now or before == 0 then return spent end
  return math.ceil(now + (spent - now) * after / before)
end

redis.call("HDEL", key.policies, "") -- a first write that frees memory lets old servers go on when memory is short
local before = policy(host)
local kept = keep_policy(host, words)
local after = policy(host)
local leased, spent, stored = standing(host)
local resting = not stored and redis.call("ZSCORE", key.idle, host)
if resting then
  redis.call("ZADD", key.idle, rescaled(tonumber(resting), before, after), host)
else
  place(host, leased, rescaled(spent, before, after), top_lane(host))
end
finish()
return kept
