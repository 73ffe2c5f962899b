-- All keys of the shard, with `root` as their prefix; keys.py has the same list, with their types.
-- Needs: ledger_key.
local root = string.sub(ledger_key, 1, -#":ledger" - 1)
local key = {
  ledger = root .. ":ledger",
  ready = root .. ":ready",
  waiting = root .. ":waiting",
  idle = root .. ":idle",
  hosts = root .. ":hosts",
  lanes = root .. ":lanes",
  policies = root .. ":policies",
  robots = root .. ":robots",
  pages = root .. ":pages",
  answers = root .. ":answers",
  leases = root .. ":leases",
  leased = root .. ":leased",
  delayed = root .. ":delayed",
  dead = root .. ":dead",
  buried = root .. ":buried",
  dead_reasons = root .. ":dead_reasons",
  dead_hosts = root .. ":dead_hosts",
  dead_by_host = root .. ":dead_by_host",
  results = root .. ":results",
  result_times = root .. ":result_times",
  ticks = root .. ":ticks",
  groups = root .. ":groups",
  watches = root .. ":watches",
  watch_times = root .. ":watch_times",
  ended = root .. ":ended",
  turns = root .. ":turns",
  bell = root .. ":bell",
}

--- @include "whole"

local queue_prefix = {}

-- The queue of a host at one priority: a LIST, the next request at its left end.
local function queue_key(priority, host)
  local prefix = queue_prefix[priority]
  if not prefix then
    prefix = root .. ":queue:" .. priority .. ":"
    queue_prefix[priority] = prefix
  end
  return prefix .. host
end
