#!lua
-- Enqueue the tick of a recurring task, unless its schedule had this one or a later one, or another schedule of the task had this one.
-- A tick does not enter the seen filter.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, host, schedule, due (ms of the server's clock; 0 only reads), record (see created.lua)
--
-- Returns {added, seen, full, or refused if the crawl is cancelled; ms of the newest tick of the schedule, 0 if there is none; ms of the
-- server's clock}.
local ledger_key, clock, host, schedule, due, record =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "entries"
--- @include "created"
--- @include "notify"
local refusal = check_ledger()
if refusal then return refusal end
local MOST_SCHEDULES = 8 -- of a task: while workers with different files run

-- Returns the newest tick of the schedule, whether another schedule had this one, and the lines of the others.
local function read_ticks()
  local newest, others, is_taken = 0, {}, false
  for at, name in string.gmatch(redis.call("HGET", key.ticks, host) or "", "(%d+) ([^\n]*)") do
    if name == schedule then
      newest = tonumber(at)
    else
      others[#others + 1] = at .. " " .. name
      is_taken = is_taken or tonumber(at) == due
    end
  end
  return newest, is_taken, others
end

local newest, is_taken, others = read_ticks()
local function reply(word)
  return { word, whole(newest), whole(now - ahead) }
end

if due <= newest then return reply("seen") end
if ledger.state == "cancelled" then return reply("refused") end
local pending = ledger.queued + redis.call("ZCARD", key.delayed)
if not is_taken and pending >= ledger.capacity then return reply("full") end
newest = due
others[MOST_SCHEDULES] = nil
table.insert(others, 1, whole(due) .. " " .. schedule)
redis.call("HSET", key.ticks, host, table.concat(others, "\n"))
if is_taken then return reply("seen") end
set_created()
ledger.token = math.max(ledger.token, now * 1024) + 1
redis.call("ZADD", key.delayed, due + ahead, whole(ledger.token) .. "\n" .. entry(host, 0, 0, 0, 0, stored_record(record)))
expect_at(due + ahead)
ledger.accepted = ledger.accepted + 1
write_ledger()
notify()
return reply("added")
