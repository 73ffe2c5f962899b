-- Hosts: their standing (leases held now, and the time at which their pace is spent), their policy, their place.
--
-- A host with requests is in exactly one place: `ready` (it may be claimed), `waiting` (it opens later), or in
-- neither (at its cap, or paused). A host without requests is in neither; while its delay lasts it rests in `idle`.
-- Needs: key, ledger, now, lanes, bell.
--- @include "lanes"
--- @include "bell"
local RANK = 4398046511104 -- 2^42: room for that many turns inside one priority
local any_policy
local policies = {} -- as they are read during this call (false: it has none of its own)

-- Reads the policies of many hosts at once.
local function read_policies(hosts)
  if any_policy == nil then any_policy = redis.call("EXISTS", key.policies) == 1 end
  if not any_policy or #hosts == 0 then return end
  local texts = redis.call("HMGET", key.policies, unpack(hosts))
  for i, host in ipairs(hosts) do policies[host] = texts[i] end
end

local function policy_text(host)
  if any_policy == nil then any_policy = redis.call("EXISTS", key.policies) == 1 end
  if not any_policy then return false end
  if policies[host] == nil then policies[host] = redis.call("HGET", key.policies, host) end
  return policies[host]
end

-- delay, concurrency, burst, blocked until, paused: of its own, "-" where it has none
local function own_policy(host)
  return string.match(policy_text(host) or "- - - - -", "^(%S+) (%S+) (%S+) (%S+) (%S+)$")
end

-- delay, concurrency, burst, blocked until, paused: as they hold for the host
local function policy(host)
  local delay, concurrency, burst, blocked, paused = ledger.delay, ledger.concurrency, ledger.burst, 0, false
  local text = policy_text(host)
  if text then
    local d, c, b, u, p = string.match(text, "^(%S+) (%S+) (%S+) (%S+) (%S+)$")
    delay, concurrency, burst = tonumber(d) or delay, tonumber(c) or concurrency, tonumber(b) or burst
    blocked, paused = tonumber(u) or 0, p == "1"
  end
  if ledger.host_pages then
    local done = tonumber(redis.call("HGET", key.pages, host) or 0)
    concurrency = math.min(concurrency, ledger.host_pages - done)
  end
  return delay, concurrency, burst, blocked, paused
end

local function keep_policy(host, delay, concurrency, burst, blocked, paused)
  if delay == "-" and concurrency == "-" and burst == "-" and blocked == "-" and paused == "-" then
    redis.call("HDEL", key.policies, host)
    policies[host] = false
  else
    policies[host] = table.concat({ delay, concurrency, burst, blocked, paused }, " ")
    redis.call("HSET", key.policies, host, policies[host])
    any_policy = true
  end
end

-- A block that is over is forgotten; many hosts are blocked once.
local function end_block(host)
  local delay, concurrency, burst, _, paused = own_policy(host)
  keep_policy(host, delay, concurrency, burst, "-", paused)
end

-- Standings as they are read and kept during this call (false: nothing is stored); `changed` ones are written at its end.
local standings, changed = {}, {}

-- Reads the standings of many hosts at once.
local function read_standings(hosts)
  if #hosts == 0 then return end
  local texts = redis.call("HMGET", key.hosts, unpack(hosts))
  for i, host in ipairs(hosts) do
    if standings[host] == nil then standings[host] = texts[i] end
  end
end

-- Leases under way, the time at which the pace is spent, and whether anything is stored of either.
local function standing(host)
  if standings[host] == nil then standings[host] = redis.call("HGET", key.hosts, host) end
  local text = standings[host]
  if not text then return 0, 0, false end
  local leased, spent = string.match(text, "^(%d+) (%d+)$")
  return tonumber(leased), tonumber(spent), true
end

local function change_standing(host, text)
  if standings[host] == text then return end
  standings[host] = text
  changed[host] = true
end

local function keep_standing(host, leased, spent)
  change_standing(host, (leased > 0 or spent > now) and leased .. " " .. whole(spent))
end

local function write_standings()
  local kept, gone = {}, {}
  for host in pairs(changed) do
    if standings[host] then
      kept[#kept + 1] = host
      kept[#kept + 1] = standings[host]
    else
      gone[#gone + 1] = host
    end
  end
  if #gone > 0 then redis.call("HDEL", key.hosts, unpack(gone)) end
  if #kept > 0 then redis.call("HSET", key.hosts, unpack(kept)) end
end

-- Takes the host out of where it was (`from`: ready, waiting, nowhere, or nil when that is not known).
local function leave(host, from, to)
  if from ~= "nowhere" and from ~= "waiting" and to ~= "ready" then redis.call("ZREM", key.ready, host) end
  if from ~= "nowhere" and from ~= "ready" and to ~= "waiting" then redis.call("ZREM", key.waiting, host) end
end

-- Nothing waits for this host any more.
local function rest(host, leased, spent, from)
  leave(host, from)
  if leased > 0 then return keep_standing(host, leased, spent) end
  change_standing(host, false)
  if spent > now then redis.call("ZADD", key.idle, spent, host) end
end

-- Puts the host where its requests, its standing and its policy say. `top` is its best priority, nil if it has none;
-- `from` is where it was, nil if that is not known.
local function place(host, leased, spent, top, from)
  local delay, concurrency, burst, blocked, paused = policy(host)
  if top and (concurrency < 1 or ledger.state == "cancelled") then
    drop_lanes(host)
    top = nil
  end
  if not top then return rest(host, leased, spent, from) end
  if blocked > 0 and blocked <= now then end_block(host) end
  keep_standing(host, leased, spent)
  local opens = math.max(blocked, spent - (burst - 1) * delay)
  if paused or leased >= concurrency then
    leave(host, from)
  elseif opens > now then
    leave(host, from, "waiting")
    redis.call("ZADD", key.waiting, opens, host)
    expect_at(opens)
  else
    leave(host, from, "ready")
    expect_ready()
    ledger.turn = ledger.turn + 1
    redis.call("ZADD", key.ready, ledger.turn - top * RANK, host)
  end
end

-- The lane of this host at this priority was empty and holds a request now.
local function wake(host, priority)
  local leased, spent, stored = standing(host)
  local only_lane = not lanes_of(host)
  if not stored then
    local resting = redis.call("ZSCORE", key.idle, host)
    if resting then
      redis.call("ZREM", key.idle, host)
      spent = tonumber(resting)
    end
  end
  if only_lane then return place(host, leased, spent, priority, "nowhere") end
  place(host, leased, spent, best_lane(host))
end

-- So many leases of this host have ended.
local function unlease(host, ended)
  local leased, spent = standing(host)
  local _, concurrency = policy(host)
  local left = math.max(0, leased - ended)
  if leased >= concurrency or ledger.state == "cancelled" then
    place(host, left, spent, top_lane(host), leased >= concurrency and not ledger.host_pages and "nowhere" or nil)
  elseif left == 0 and not top_lane(host) then
    rest(host, left, spent, "nowhere")
  else
    keep_standing(host, left, spent)
  end
end

-- Ends a call that may have changed hosts.
local function finish()
  write_standings()
  write_ledger()
  ring()
end
