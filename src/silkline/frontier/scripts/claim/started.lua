#!lua flags=allow-oom
-- Return slack that pages did not need: a page has started, and its host opens one delay after that. Hosts that were claimed again
-- since then, that are open already, or whose delay has changed, are not changed. Calling it twice has the same effect as once.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, for each page: token, claimed (the time of its claim on the shard's clock), slack_ms (that of its claim), used_ms (how
--         much of it the page needed; less than 0 if it started earlier than its claim planned)
--
-- Returns for each page the delay of its host in ms, or "-" if no slack was returned, separated by spaces.
local ledger_key, clock = KEYS[1], ARGV[1]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @nest
--- @include "hosts"
--- @include "entries"
--- @include "allow_oom"
local refusal = check_ledger()
if refusal then return refusal end
local PER_PAGE = 4
local ROUNDED = 0.001 -- as in pace.lua
local delays, changes = {}, false

local function return_slack(text, claimed, slack, used)
  local host = host_of(text)
  local delay = policy(host)
  local leased, spent = standing(host)
  if delay == 0 or math.abs(spent - (claimed + delay + slack)) > ROUNDED or spent <= now or used >= slack then return "-" end
  place(host, leased, math.max(claimed, spent - slack + used), top_lane(host))
  changes = true
  return milliseconds(delay)
end

allow_oom(key.ledger)
for i = 2, #ARGV, PER_PAGE do
  local text = redis.call("HGET", key.leased, ARGV[i])
  delays[#delays + 1] = text and return_slack(text, tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])) or "-"
end
if changes then finish() end
return table.concat(delays, " ")
