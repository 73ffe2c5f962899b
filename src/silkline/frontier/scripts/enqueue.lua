#!lua
-- Offer requests to the shard: those not seen before enter their host's queue.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, slot, call, then per request: mark, body
--         mark is the fingerprint, followed by " priority due flags parent" unless all of them are the default: due in ms
--         (0: at once), flags "d" for dont_filter or "-", parent the token of the lease that found the request, or "-"
--         body is the host, a newline, and the record
--
-- Returns one letter per request: (a)dded, (s)een, (f)ull, (b)udget of the host spent, (c)rawl cancelled,
-- (l)ost: the parent's lease is no longer held.
local root, clock, slot, call = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "clock"
--- @include "keys"
--- @include "ledger"
--- @include "once"
--- @include "hosts"
--- @include "entries"
--- @include "seen"
local refusal = read_ledger()
if refusal then return refusal end
local answered = replay()
if answered then return answered end

local pending = ledger.queued + redis.call("ZCARD", key.delayed)
if ledger.full == 1 and pending <= ledger.capacity * 0.8 then ledger.full = 0 end
local room = ledger.full == 1 and 0 or ledger.capacity - pending
local closed = ledger.state == "cancelled"
local find, sub = string.find, string.sub

local function budget_spent(host)
  return tonumber(redis.call("HGET", key.pages, host) or 0) >= ledger.host_pages
end

local function delay(host, priority, due, record)
  ledger.token = math.max(ledger.token, now * 1024) + 1 -- of the same length as any other: what is due at once is sorted by it
  redis.call("ZADD", key.delayed, due, whole(ledger.token) .. "\n" .. entry(host, priority, 0, 0, 0, record))
  expect_at(due)
end

-- mark, priority, due, whether it is filtered, parent
local function read_mark(mark)
  if not find(mark, " ", 1, true) then return mark, 0, 0, true, "-" end
  local fingerprint, priority, due, flags, parent = string.match(mark, "^(%S+) (%S+) (%S+) (%S+) (%S+)$")
  return fingerprint, tonumber(priority), tonumber(due), flags ~= "d", parent
end

local function admit(mark, body)
  local fingerprint, priority, due, filtered, parent = read_mark(mark)
  if parent ~= "-" and redis.call("HEXISTS", key.leased, parent) == 0 then return "l" end
  if closed then return "c" end
  local line = find(body, "\n", 1, true)
  local host, record = sub(body, 1, line - 1), sub(body, line + 1)
  if ledger.host_pages and budget_spent(host) then return "b" end
  if room < 1 then return filtered and was_seen(fingerprint) and "s" or "f" end
  if filtered and not mark_seen(fingerprint) then return "s" end
  room = room - 1
  ledger.accepted = ledger.accepted + 1
  if due > now then
    delay(host, priority, due, record)
  elseif push(host, priority, record) then
    wake(host, priority)
  end
  return "a"
end

local answers = {}
for i = 4, #ARGV, 2 do
  answers[#answers + 1] = admit(ARGV[i], ARGV[i + 1])
end
if room < 1 then ledger.full = 1 end
write_ledger()
ring()
answered = table.concat(answers)
remember(answered)
return answered
