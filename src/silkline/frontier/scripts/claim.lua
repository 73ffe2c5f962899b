#!lua flags=allow-oom
-- Lease requests of hosts that may be fetched now: best priority first, then the host that waits longest.
-- Before that, expired leases are rescued, due requests promoted and due hosts opened, a bounded number each.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, slot, call, wanted, lease_ms, slack_ms  -  how late the caller may begin
--
-- Returns {when the leases began, look_in, starved, token, entry, token, entry …}: look_in is when to ask again, in ms,
-- or "" when only the bell can tell; starved is how many more the page allowance kept back.
local root, clock, slot, call, wanted, lease_ms, slack =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
--- @include "steady"
--- @include "keys"
--- @include "ledger"
--- @include "once"
--- @include "hosts"
--- @include "entries"
--- @include "graves"
--- @include "rescue"
--- @include "due"
local refusal = read_ledger()
if refusal then return refusal end
local BATCH = 100
local expires = whole(now + lease_ms)
--- @include "serve"
local starved = 0

local function claim_all()
  if ledger.allowance then
    local room = math.max(0, ledger.allowance - ledger.done - redis.call("HLEN", key.leased))
    starved = math.max(0, wanted - room)
    wanted = math.min(wanted, room)
  end
  look_at_ready()
  local taken, looks = 0, 0
  while taken < wanted and looks < wanted + BATCH * 10 do -- bounded, whatever is wrong with the hosts
    local host = redis.call("ZRANGE", key.ready, 0, 0)[1]
    if not host then break end
    taken = has_lanes() and taken + serve(host, wanted - taken) or serve_line(taken)
    looks = looks + 1
  end
  ledger.queued = ledger.queued - taken
  if taken > 0 then
    redis.call("HSET", key.leased, unpack(leases, HEADS + 1))
    redis.call("ZADD", key.leases, unpack(expiries))
  end
  if taken < wanted or redis.call("EXISTS", key.ready) == 0 then starved = 0 end
  if taken < wanted then forget_turns() end
end

-- Milliseconds until something may open, be due or expire; "" when nothing is known to.
local function look_in()
  if ledger.state == "paused" then return "" end
  if ledger.state == "open" and starved == 0 and redis.call("EXISTS", key.ready) == 1 then return "0" end
  local soonest = math.huge
  for _, name in ipairs({ "waiting", "delayed", "leases" }) do
    local time = tonumber(redis.call("ZRANGE", key[name], 0, 0, "WITHSCORES")[2])
    if time and time < soonest then soonest = time end
  end
  return soonest < math.huge and whole(math.max(0, soonest - now)) or ""
end

local function reply(started, tokens)
  tokens[1], tokens[2], tokens[3] = whole(started), look_in(), whole(starved)
  return tokens
end

-- The same call again: the leases it was given, as far as they are still held.
local function replayed(range)
  local first, last = string.match(range, "^(%d+) (%d+)$")
  local expires = redis.call("ZSCORE", key.leases, first)
  local again = { "", "", "" }
  for token = tonumber(first), tonumber(last) do
    local text = redis.call("HGET", key.leased, whole(token))
    if text then
      again[#again + 1] = whole(token)
      again[#again + 1] = text
    end
  end
  return reply(expires and tonumber(expires) - lease_ms or now, again)
end

-- By how much the server's clock was set back, and when; until it has caught up.
local function note_set_back()
  if was_set_back then
    redis.call("HSET", key.ledger, "set_back", whole(now - server_time) .. " " .. whole(server_time))
  elseif set_back and now == server_time then
    redis.call("HDEL", key.ledger, "set_back")
  end
end

local answered = replay()
if answered then return replayed(answered) end
redis.call("DEL", once_key) -- a first write that frees memory lets old servers finish the script when memory is short
note_set_back()
rescue_expired(BATCH)
if ledger.state == "open" then
  promote_due(BATCH)
  open_due_hosts(math.max(wanted, BATCH))
  claim_all()
end
if count > 0 or now >= ledger.time + MOMENT then ledger.time = now end
finish()
if count > 0 then remember(leases[HEADS + 1] .. " " .. leases[#leases - 1]) end
return reply(now, leases)
