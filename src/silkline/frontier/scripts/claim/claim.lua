#!lua flags=allow-oom
-- Lease requests of hosts that may be fetched now: the highest priority first, then the host that has waited longest.
-- Before that, rescue expired leases, promote due requests and open due hosts, a bounded number of each. At most one suspect is
-- leased; a suspect with a strike is leased alone.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, slot, call, relied, wanted, lease_ms, slack_ms (how late the caller may start; after it, each after
--         a space, hosts whose requests it starts at once), suspect_policy: whether a suspect may be leased (none; beside: the caller
--         holds other requests; alone: it holds none), floor (the lowest priority to lease, except of suspects; "" for all); then
--         hosts that are at their cap, each with how many of its requests to lease in reserve: without a place (see
--         hand_over.lua), if there is nothing else to lease
--         relied names calls that the shard has acknowledged to the client: "slot number", one per line
--
-- Returns {"began ahead", look_in, starved, token, entry, token, entry …}: when the leases began on the shard's clock, and how many
-- ms that clock is ahead of the server's; look_in is the time in ms until the next claim makes sense, or "" to wait for a
-- notification; starved is how many more requests the page allowance prevents. After it comes the priority of the next request that
-- may be claimed, if that is not 0 or if " lost writes" follows: then the shard does not know the calls in relied. The word "isolate"
-- comes last if the caller should finish its other requests and then claim alone.
local ledger_key, clock, slot, call, relied, wanted, lease_ms, slack_words, suspect_policy, floor, any_reserve = KEYS[1],
  ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8], tonumber(ARGV[9] or ""), ARGV[10]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "idempotency"
--- @include "losses"
--- @nest
--- @include "hosts"
--- @include "entries"
local refusal = check_ledger()
if refusal then return refusal end
local BATCH = 100
-- After a failover, a primary that lacks the last writes, or whose clock is behind, may issue the same numbers again. A nonce from
-- the name of the call makes every token unique.
local nonce = "." .. string.sub(redis.sha1hex(slot .. " " .. call), 1, 8)
local expires = whole(now + lease_ms)
--- @include "lease_hosts"
local starved, lost = 0, ""
local suspects_left, isolate = false, false -- whether the caller should claim again soon, or alone
local more_due, waits_for_pages = false, false

-- Returns whether the time of any member of this sorted set has come.
local function has_due(sorted_key)
  return redis.call("ZRANGEBYSCORE", sorted_key, "-inf", now, "LIMIT", 0, 1)[1] ~= nil
end

-- Schedules waiting hosts whose time has come, and deletes hosts without requests whose delay is over.
local function open_due_hosts()
  local most = math.max(wanted, BATCH)
  local due = redis.call("ZRANGEBYSCORE", key.waiting, "-inf", now, "LIMIT", 0, most)
  read_standings(due)
  for _, host in ipairs(due) do
    local leased, spent = standing(host)
    place(host, leased, spent, best_lane(host), "waiting")
  end
  local rested = redis.call("ZRANGEBYSCORE", key.idle, "-inf", now, "LIMIT", 0, most * 2)
  if #rested > 0 then redis.call("ZREM", key.idle, unpack(rested)) end
end

local function apply_allowance()
  if not ledger.allowance then return end
  local room = math.max(0, ledger.allowance - ledger.done - redis.call("HLEN", key.leased))
  starved = math.max(0, wanted - room)
  wanted = math.min(wanted, room)
end

-- Rescues expired leases, and promotes due requests or leases the first of those that are suspects. In most calls there are none.
-- Then Lua does not create these functions, which takes as long as the rest of a small claim.
local function serve_due_requests()
--- @include "dead_store"
--- @include "strikes"
--- @include "struck"
--- @include "rescue"
--- @include "due"
--- @include "suspects"
  rescue_expired(BATCH)
  if ledger.state == "open" then
    local suspects
    suspects, more_due = promote_due(BATCH)
    open_due_hosts()
    apply_allowance()
    waits_for_pages = wanted < 1 and starved > 0 and suspect_policy ~= NONE and #suspects > 0 -- only the allowance prevents a suspect
    lease_one_of(suspects, more_due)
  end
  write_struck()
  keep_dead_limit()
end

-- Leases requests in reserve for the hosts that the caller names. Returns how many.
local function lease_reserves(most)
--- @include "reserve"
  local taken = 0
  for i = 10, #ARGV, 2 do
    taken = taken + lease_reserve(ARGV[i], math.min(tonumber(ARGV[i + 1]), most - taken))
  end
  return taken
end

-- Returns whether requests are left that have a lower priority than the caller accepts.
local function is_below_floor()
  return (ready_priority() or floor) < floor
end

local function claim_all()
  look_at_ready()
  local taken, rounds, below = 0, 0, false
  while taken < wanted and rounds < wanted + BATCH * 10 do -- bounded, even if hosts are damaged
    below = floor and is_below_floor()
    local host = not below and redis.call("ZRANGE", key.ready, 0, 0)[1]
    if not host then break end
    taken = has_lanes() and taken + lease_host(host, wanted - taken) or lease_ready_hosts(taken)
    rounds = rounds + 1
  end
  if any_reserve and not (below or ledger.host_pages) then taken = taken + lease_reserves(wanted - taken) end
  ledger.queued = ledger.queued - taken
  if count > 0 then
    redis.call("HSET", key.leased, unpack(leases, HEADS + 1))
    redis.call("ZADD", key.leases, unpack(expiries))
  end
  if taken < wanted or redis.call("EXISTS", key.ready) == 0 then starved = 0 end
  if taken < wanted then delete_turns() end
end

-- Returns the milliseconds until a host opens, a request is due or a lease expires; "" if there is none.
local function look_in()
  if ledger.state == "paused" then return "" end
  if ledger.state == "open" and starved == 0 and redis.call("EXISTS", key.ready) == 1 then return "0" end
  if suspects_left then return "0" end
  local soonest = math.huge
  for _, name in ipairs({ "waiting", "leases" }) do
    local time = tonumber(redis.call("ZRANGE", key[name], 0, 0, "WITHSCORES")[2])
    if time and time < soonest then soonest = time end
  end
  -- The delayed requests that are still due are suspects, or did not fit into this call.
  local due = redis.call("ZRANGEBYSCORE", key.delayed, more_due and "-inf" or "(" .. whole(now), "+inf", "WITHSCORES", "LIMIT", 0, 1)
  soonest = math.min(soonest, tonumber(due[2]) or math.huge)
  return soonest < math.huge and whole(math.max(0, math.ceil(soonest - now))) or ""
end

local function make_reply(started, tokens)
  tokens[1], tokens[2], tokens[3] = whole(started) .. " " .. whole(ahead), look_in(), whole(starved)
  local best = tokens[2] == "0" and has_lanes() and ready_priority() or 0
  if best ~= 0 or lost ~= "" then tokens[3] = tokens[3] .. " " .. whole(best) .. lost end
  if isolate then tokens[#tokens + 1] = "isolate" end
  return tokens
end

-- Repeats the reply of this call: the leases that are still held.
local function repeat_reply(range)
  local first, last = string.match(range, "^(%d+)%S* (%d+)")
  local expires = redis.call("ZSCORE", key.leases, first .. nonce)
  local tokens = { "", "", "" }
  for token = tonumber(first), tonumber(last) do
    local text = redis.call("HGET", key.leased, whole(token) .. nonce)
    if text then
      tokens[#tokens + 1] = whole(token) .. nonce
      tokens[#tokens + 1] = text
    end
  end
  return make_reply(expires and tonumber(expires) - lease_ms or now, tokens)
end

-- Stores by how much the shard's clock is ahead, after the server's was set back.
local function store_ahead()
  if ahead ~= (stored_ahead or 0) then redis.call("HSET", key.ledger, "ahead", whole(ahead)) end
end

-- Earlier versions would misread the leases and suspects that are stored from now on. The new schema makes them refuse the shard.
local function mark_schema()
  if ledger.schema < SCHEMA then redis.call("HSET", key.ledger, "schema", SCHEMA) end
end

local stored = replay()
if stored then return repeat_reply(stored) end
redis.call("DEL", once_key) -- first: it frees memory, see allow_oom
store_ahead()
mark_schema()
if has_lost(relied) then lost = " lost writes" end
local is_open = ledger.state == "open"
if has_due(key.leases) or is_open and has_due(key.delayed) then
  serve_due_requests()
elseif is_open then
  open_due_hosts()
  apply_allowance()
end
if is_open then claim_all() end
if waits_for_pages then starved = math.max(starved, 1) end
if count > 0 or now >= ledger.time + MOMENT then ledger.time = now end
finish()
if count > 0 then remember(leases[HEADS + 1] .. " " .. leases[#leases - 1]) end
return make_reply(now, leases)
