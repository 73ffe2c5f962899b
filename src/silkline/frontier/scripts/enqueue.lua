#!lua
-- Offer requests to the shard: those not seen before enter their host's queue.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, slot, call, buckets, requests
--         buckets is how many the seen filter had when the caller last heard of it, 0 if never
--         of each request five strings, packed one after the other, each with its length before it in so many bytes:
--         fingerprint (1), bucket (1), host (2), options (1), record (4); little-endian
--         bucket is where the fingerprint belongs if there are so many buckets, "" if the caller does not know
--         options is "" or "priority due flags parent": due in ms (0: at once), flags "d" for dont_filter or "-",
--         parent the token of the lease that found the request, or "-"
--
-- Returns {letters, buckets}; one letter per request: (a)dded, (s)een, (f)ull, (b)udget of the host spent, (c)rawl cancelled,
-- (l)ost: the parent's lease is no longer held.
local root, clock, slot, call, told, requests =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
--- @include "steady"
--- @include "keys"
--- @include "ledger"
--- @include "once"
--- @include "hosts"
--- @include "entries"
--- @include "seen"
local refusal = read_ledger()
if refusal then return refusal end
local answered = replay()
if answered then return { answered, ledger.buckets } end
trust_buckets(told)

local pending = ledger.queued + redis.call("ZCARD", key.delayed)
if ledger.full == 1 and pending <= ledger.capacity * 0.8 then ledger.full = 0 end
local room = ledger.full == 1 and 0 or ledger.capacity - pending
local closed = ledger.state == "cancelled"
local added, duplicates, turned_away = 0, 0, 0
local held = {} -- whether the leases of parents are

-- It was seen before.
local function again()
  duplicates = duplicates + 1
  return "s"
end

-- There is no room for it, unless it was seen before.
local function no_room(filtered, fingerprint)
  if filtered and was_seen(fingerprint) then return again() end
  turned_away = turned_away + 1
  return "f"
end

local function budget_spent(host)
  return tonumber(redis.call("HGET", key.pages, host) or 0) >= ledger.host_pages
end

local function delay(host, priority, due, record)
  ledger.token = math.max(ledger.token, now * 1024) + 1 -- of the same length as any other: what is due at once is sorted by it
  redis.call("ZADD", key.delayed, due, whole(ledger.token) .. "\n" .. entry(host, priority, 0, 0, 0, record))
  expect_at(due)
end

-- Requests for one lane that came one after the other, as the links of a page do: they are pushed together.
local run, run_length, run_host, run_priority = {}, 0, nil, nil

local function push_run()
  if run_length > 0 and push(run_host, run_priority, run, run_length) then wake(run_host, run_priority) end
  run_length = 0
end

-- Stores an accepted request.
local function store(host, priority, due, record)
  room = room - 1
  added = added + 1
  if due > now then return delay(host, priority, due, record) end
  if host ~= run_host or priority ~= run_priority then
    push_run()
    run_host, run_priority = host, priority
  end
  run_length = run_length + 1
  run[run_length] = record
end

local function is_held(parent)
  if held[parent] == nil then held[parent] = redis.call("HEXISTS", key.leased, parent) == 1 end
  return held[parent]
end

-- A request with something to say beside its URL.
local function admit(fingerprint, bucket, host, options, record)
  local priority, due, flags, parent = string.match(options, "^(%S+) (%S+) (%S+) (%S+)$")
  if parent ~= "-" and not is_held(parent) then return "l" end
  if closed then return "c" end
  if ledger.host_pages and budget_spent(host) then return "b" end
  local filtered = flags ~= "d"
  if room < 1 then return no_room(filtered, fingerprint) end
  if filtered and not mark_seen(fingerprint, bucket) then return again() end
  store(host, tonumber(priority), tonumber(due), record)
  return "a"
end

-- One without: the same in fewer steps.
local function admit_plain(fingerprint, bucket, host, _, record)
  if closed then return "c" end
  if ledger.host_pages and budget_spent(host) then return "b" end
  if room < 1 then return no_room(true, fingerprint) end
  if not mark_seen(fingerprint, bucket) then return again() end
  store(host, 0, 0, record)
  return "a"
end

local answers, n, at, length, unpack_request = {}, 0, 1, #requests, struct.unpack
while at <= length do
  local fingerprint, bucket, host, options, record
  fingerprint, bucket, host, options, record, at = unpack_request("<Bc0Bc0Hc0Bc0I4c0", requests, at)
  n = n + 1
  answers[n] = (options == "" and admit_plain or admit)(fingerprint, bucket, host, options, record)
end
push_run()
ledger.accepted = ledger.accepted + added
ledger.duplicates = ledger.duplicates + duplicates
ledger.turned_away = ledger.turned_away + turned_away
if room < 1 then ledger.full = 1 end
finish()
answered = table.concat(answers)
remember(answered)
return { answered, ledger.buckets }
