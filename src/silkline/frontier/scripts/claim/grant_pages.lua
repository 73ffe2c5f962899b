#!lua flags=allow-oom
-- Grant pages of the crawl's budget to a shard. If the shard did not receive its last grant, return that one again. If it
-- surrendered pages (a newer epoch), take them back first. So no page is lost, and the sum never exceeds the budget.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    budget (used only if the settings of the crawl cannot be decoded), shard, epoch and allowance that the shard stores,
--         wanted
--
-- Returns {epoch, allowance} that the shard must store.
local crawl, budget, shard = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local epoch, allowance, wanted = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
--- @include "allow_oom"
--- @include "crawl"
local refusal = refuse_missing_crawl(crawl)
if refusal then return refusal end

local function read_grant(text)
  local granted_epoch, granted = string.match(text or "0 0", "^(%d+) (%d+)$")
  return tonumber(granted_epoch), tonumber(granted)
end

-- Returns the stored budget: it may have been changed since the client read it.
local function budget_now()
  local readable, settings = pcall(cjson.decode, redis.call("HGET", crawl, "settings") or "")
  if not readable or type(settings) ~= "table" then return budget end
  local pages = type(settings.budget) == "table" and settings.budget.pages
  return tonumber(pages) or math.huge
end

budget = budget_now()
allow_oom(crawl)
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
