#!lua flags=allow-oom
-- Grant pages of the crawl's budget to a shard. What a shard was granted before and does not know of is told again
-- first; what it surrendered (a newer epoch) is taken back first. So nothing leaks and the sum never passes the budget.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    budget, shard, epoch and allowance of the shard as it stands there, wanted
--
-- Returns {epoch, allowance} that the shard should have.
local crawl, budget, shard = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local epoch, allowance, wanted = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local function read_grant(text)
  local granted_epoch, granted = string.match(text or "0 0", "^(%d+) (%d+)$")
  return tonumber(granted_epoch), tonumber(granted)
end

redis.call("HDEL", crawl, "") -- a first write that frees memory lets old servers go on when memory is short
local known_epoch, granted = read_grant(redis.call("HGET", crawl, "granted:" .. shard))
if epoch > known_epoch then known_epoch, granted = epoch, allowance end
local others = 0
local all = redis.call("HGETALL", crawl)
for i = 1, #all, 2 do
  local other = string.match(all[i], "^granted:(%d+)$")
  if other and other ~= shard then
    local _, pages = read_grant(all[i + 1])
    others = others + pages
  end
end
if known_epoch == epoch and granted == allowance then
  granted = granted + math.max(0, math.min(wanted, budget - others - granted))
end
redis.call("HSET", crawl, "granted:" .. shard, known_epoch .. " " .. granted)
return { known_epoch, granted }
