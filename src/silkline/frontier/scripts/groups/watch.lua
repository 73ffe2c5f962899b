#!lua
-- Note that a group waits for calls, which may be enqueued later. When one ends, take_ended returns that. Or end the watch.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, until (ms of the server's clock; 0 ends the watch), group, batch, then for each call its name and number; or one name of a
--         batch, which ends with "*", and the count of its calls (see watches.lua)
--
-- Returns watched; or full if too many groups wait for one of the calls, and for those before it the watch is stored.
local ledger_key, clock, until_, group, batch = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "watches"
local refusal = check_ledger()
if refusal then return refusal end
local MOST_WATCHERS = 65536 -- bytes of the groups that wait for one call

-- Returns the lines of a watch but for this one.
local function lines_without(stored, line)
  local lines = {}
  for other in string.gmatch(stored or "", "[^\n]+") do
    if other ~= line then lines[#lines + 1] = other end
  end
  return lines
end

local function watch(name, line)
  local stored = redis.call("HGET", key.watches, name)
  if stored and string.sub(name, -1) == "*" and until_ > 0 then return end -- a batch has one group, and this was sent twice
  local lines = lines_without(stored, line)
  if until_ > 0 then lines[#lines + 1] = line end
  local text = table.concat(lines, "\n")
  if text == "" then return forget_watch(name) end
  if #text > MOST_WATCHERS then return "full" end
  redis.call("HSET", key.watches, name, text)
  local last = tonumber(redis.call("ZSCORE", key.watch_times, name) or 0)
  redis.call("ZADD", key.watch_times, whole(math.max(last, until_ + ahead)), name)
end

if until_ > 0 then ledger.watched = math.max(ledger.watched, until_ + ahead) end
local answer
for i = 5, #ARGV, 2 do
  local name, number = ARGV[i], tonumber(ARGV[i + 1])
  local is_batch = string.sub(name, -1) == "*"
  answer = answer or watch(name, group .. " " .. batch .. " " .. (is_batch and string.rep(PENDING, number) or number))
end
write_ledger()
return answer or "watched"
