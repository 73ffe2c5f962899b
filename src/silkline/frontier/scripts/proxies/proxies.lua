#!lua flags=no-writes
-- List the proxies of the crawl with their health, those whose state changed last first.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, most
--
-- Returns for each proxy: its name; its state (ready, resting or unknown); for how many ms it rests, failures in a row, recent
-- responses, failures, blocks and ms of responses, time of the last report in ms, separated by spaces; why it failed last.
local crawl, clock, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
--- @include "clock"
--- @include "migration"
--- @include "crawl"
--- @include "proxies"
local refusal = refuse_migration(crawl) or refuse_missing_crawl(crawl)
if refusal then return refusal end
local reply = {}
for _, name in ipairs(redis.call("ZREVRANGE", proxy_changes_key, 0, most - 1)) do
  local proxy = read_proxy(redis.call("HGET", proxies_key, name))
  local is_resting = proxy.rests_until > now
  local numbers = { is_resting and proxy.rests_until - now or 0, proxy.failures }
  for _, count in ipairs({ "fetched", "failed", "blocked", "ms", "updated" }) do numbers[#numbers + 1] = proxy[count] end
  for at, number in ipairs(numbers) do numbers[at] = whole(number) end
  reply[#reply + 1] = name
  reply[#reply + 1] = is_resting and "resting" or proxy.worked_at > 0 and "ready" or "unknown"
  reply[#reply + 1] = table.concat(numbers, " ")
  reply[#reply + 1] = proxy.why
end
return reply
