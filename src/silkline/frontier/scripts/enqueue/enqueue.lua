#!lua
-- Offer requests to the shard. Those that were not seen before enter the queue of their host.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, slot, call, relied, again, buckets, requests
--         relied names calls that the shard has acknowledged to the client: "slot number", one per line
--         again is "" or, if the shard has lost these requests, "again": then the leases of their parents need not be held, and
--         requests with dont_filter are skipped
--         buckets is the number of buckets in the last reply to the caller, 0 if there was none
--         requests are packed: five strings each, each string after its length, a little-endian integer of this many bytes:
--         fingerprint (1), bucket (1), host (2), options (1), record (4): see created.lua
--         bucket is the bucket of the fingerprint if the filter has that many buckets, "" if the caller does not know
--         options is "" or "priority due flags parent": due in ms of the server's clock (0: now), flags "d" for dont_filter or "-",
--         parent the token of the lease of the page with the link, or "-"
--
-- Returns {letters, buckets, 1 if the shard does not know the calls in relied, else 0, priority}; one letter per request: (a)dded,
-- (s)een, (f)ull, (h)ost has reached its share, (b)udget of the host spent, (c)rawl cancelled, (l)ost: the parent's lease is no longer
-- held. The highest priority that may be claimed now is left out if this call has not met priorities other than 0.
local ledger_key, clock, slot, call, relied, again, known_buckets, requests =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), ARGV[7]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "idempotency"
--- @include "losses"
--- @nest
--- @include "hosts"
--- @include "entries"
--- @include "created"
--- @include "seen"
local refusal = check_ledger()
if refusal then return refusal end
--- @include "share"
local stored = replay()
if stored then return { stored, ledger.buckets, 0 } end
local lost = has_lost(relied) and 1 or 0
trust_buckets(known_buckets)

local OPEN_AGAIN = 0.8 -- settings.py has the same
local pending = ledger.queued + redis.call("ZCARD", key.delayed)
if ledger.full == 1 and pending <= ledger.capacity * OPEN_AGAIN then ledger.full = 0 end
local room = ledger.full == 1 and 0 or ledger.capacity - pending
local closed = ledger.state == "cancelled"
local added, duplicates, turned_away, over_share = 0, 0, 0, 0
local held = {} -- whether the lease of a parent is held, by its token

local function count_duplicate()
  duplicates = duplicates + 1
  return "s"
end

-- Counts a request for which the shard has no room, unless it was seen before.
local function refuse_full(filtered, fingerprint)
  if filtered and was_seen(fingerprint) then return count_duplicate() end
  turned_away = turned_away + 1
  return "f"
end

local function count_over_share()
  turned_away, over_share = turned_away + 1, over_share + 1
  return "h"
end

-- Counts a request whose host has reached its share, unless it was seen before.
local function refuse_over_share(filtered, fingerprint)
  if filtered and was_seen(fingerprint) then return count_duplicate() end
  return count_over_share()
end

local function budget_spent(host)
  return tonumber(redis.call("HGET", key.pages, host) or 0) >= ledger.host_pages
end

local function delay(host, priority, due, record)
  ledger.token = math.max(ledger.token, now * 1024) + 1 -- all have the same length: requests that are due at the same time are sorted by it
  redis.call("ZADD", key.delayed, due, whole(ledger.token) .. "\n" .. entry(host, priority, 0, 0, 0, stored_record(record)))
  expect_at(due)
end

-- Consecutive requests for one lane, such as the links of a page: they are pushed with one command.
local run, run_length, run_host, run_priority = {}, 0, nil, nil

local function push_run()
  if run_length > 0 and push(run_host, run_priority, run, run_length) then wake(run_host, run_priority) end
  run_length = 0
end

local waits = {} -- number of waiting requests by host, if it is known

local function has_reached_share(host)
  if not waits[host] then
    push_run()
    waits[host] = waiting_of(host)
  end
  return is_share(waits[host], room)
end

-- Returns whether the reply to a push is the number of waiting requests of the host, so that it need not be counted. This requires
-- a host with one lane, and a filter that can forget a request that turns out to be over the share.
local function push_returns_count(host)
  return not waits[host] and not has_lanes() and ledger.seen ~= "bloom"
end

-- Stores a request that was just marked as seen. If the push shows that its host has reached its share, undoes both.
local function push_unless_over_share(host, fingerprint, record)
  push_run()
  run[1] = stored_record(record)
  local was_empty, length = push(host, 0, run, 1)
  if is_share(length - 1, room) then
    unpush(host, 0)
    buckets_forget(fingerprint)
    waits[host] = length - 1
    return count_over_share()
  end
  waits[host] = length
  room, added = room - 1, added + 1
  if was_empty then wake(host, 0) end
  return "a"
end

-- Stores an accepted request.
local function store(host, priority, due, record)
  room = room - 1
  added = added + 1
  if waits[host] and due <= now then waits[host] = waits[host] + 1 end
  if due > now then return delay(host, priority, due, record) end
  if host ~= run_host or priority ~= run_priority then
    push_run()
    run_host, run_priority = host, priority
  end
  run_length = run_length + 1
  run[run_length] = created and created .. record or stored_record(record)
end

local function is_held(parent)
  if held[parent] == nil then held[parent] = redis.call("HEXISTS", key.leased, parent) == 1 end
  return held[parent]
end

-- Handles a request with options.
local function admit(fingerprint, bucket, host, options, record)
  local priority, due, flags, parent = string.match(options, "^(%S+) (%S+) (%S+) (%S+)$")
  if again == "" then
    if parent ~= "-" and not is_held(parent) then return "l" end
  elseif flags == "d" then
    return "s"
  end
  if closed then return "c" end
  if ledger.host_pages and budget_spent(host) then return "b" end
  local filtered = flags ~= "d"
  if room < 1 then return refuse_full(filtered, fingerprint) end
  if room <= crowded_below and has_reached_share(host) then return refuse_over_share(filtered, fingerprint) end
  if filtered and not mark_seen(fingerprint, bucket) then return count_duplicate() end
  due = tonumber(due)
  store(host, tonumber(priority), due > 0 and due + ahead or 0, record)
  return "a"
end

-- Handles a request without options: the same in fewer steps.
local function admit_plain(fingerprint, bucket, host, _, record)
  if closed then return "c" end
  if ledger.host_pages and budget_spent(host) then return "b" end
  if room < 1 then return refuse_full(true, fingerprint) end
  local push_first
  if room <= crowded_below then
    push_first = push_returns_count(host)
    if not push_first and has_reached_share(host) then return refuse_over_share(true, fingerprint) end
  end
  if not mark_seen(fingerprint, bucket) then return count_duplicate() end
  if push_first then return push_unless_over_share(host, fingerprint, record) end
  store(host, 0, 0, record)
  return "a"
end

set_created()
local letters, n, at, length, unpack_request = {}, 0, 1, #requests, struct.unpack
while at <= length do
  local fingerprint, bucket, host, options, record
  fingerprint, bucket, host, options, record, at = unpack_request("<Bc0Bc0Hc0Bc0I4c0", requests, at)
  n = n + 1
  letters[n] = (options == "" and admit_plain or admit)(fingerprint, bucket, host, options, record)
end
push_run()
ledger.accepted = ledger.accepted + added
ledger.duplicates = ledger.duplicates + duplicates
ledger.turned_away = ledger.turned_away + turned_away
ledger.over_share = ledger.over_share + over_share
if room < 1 then ledger.full = 1 end
finish()
local reply = table.concat(letters)
remember(reply)
return { reply, ledger.buckets, lost, any_lanes and ready_priority() or nil }
