#!lua
-- Offer requests to the shard: those not seen before enter their host's queue.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, slot, call, then per request: fingerprint, host, options, record
--         options is "" or "priority due flags parent": due in ms (0: at once), flags "d" for dont_filter or "-",
--         parent the token of the lease that found the request, or "-"
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

local function has_room()
  if ledger.full == 1 and pending <= ledger.capacity * 0.8 then ledger.full = 0 end
  if ledger.full == 0 and pending >= ledger.capacity then ledger.full = 1 end
  return ledger.full == 0
end

local function budget_spent(host)
  return ledger.host_pages and tonumber(redis.call("HGET", key.pages, host) or 0) >= ledger.host_pages
end

local function store(host, priority, due, record)
  pending = pending + 1
  ledger.accepted = ledger.accepted + 1
  if due > now then
    ledger.token = ledger.token + 1
    redis.call("ZADD", key.delayed, due, whole(ledger.token) .. "\n" .. entry(host, priority, 0, 0, 0, record))
    expect_at(due)
  elseif push(host, priority, record) then
    wake(host)
  end
end

local function admit(fingerprint, host, options, record)
  local priority, due, flags, parent = 0, 0, "-", "-"
  if options ~= "" then
    priority, due, flags, parent = string.match(options, "^(%S+) (%S+) (%S+) (%S+)$")
    priority, due = tonumber(priority), tonumber(due)
  end
  if parent ~= "-" and redis.call("HEXISTS", key.leased, parent) == 0 then return "l" end
  if ledger.state == "cancelled" then return "c" end
  if budget_spent(host) then return "b" end
  local filtered = flags ~= "d"
  if not has_room() then return filtered and was_seen(fingerprint) and "s" or "f" end
  if filtered and not mark_seen(fingerprint) then return "s" end
  store(host, priority, due, record)
  return "a"
end

local answers = {}
for i = 4, #ARGV, 4 do
  answers[#answers + 1] = admit(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
end
has_room()
write_ledger()
ring()
answered = table.concat(answers)
remember(answered)
return answered
