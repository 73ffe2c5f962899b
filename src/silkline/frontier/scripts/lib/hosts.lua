-- Hosts: their standing (leases held now, and the time at which their pace is spent), their policy, their place.
--
-- A host with requests is in exactly one place: `ready` (it may be claimed), `waiting` (it opens later), or in
-- neither (at its cap, or paused). A host without requests is in neither; while its delay lasts it rests in `idle`.
-- Needs: key, ledger, now, lanes, bell.
--- @include "lanes"
--- @include "bell"
local RANK = 4398046511104 -- 2^42: room for that many turns inside one priority
local any_policy

local function policy(host)
  local delay, concurrency, burst, blocked, paused = ledger.delay, ledger.concurrency, ledger.burst, 0, false
  if any_policy == nil then any_policy = redis.call("EXISTS", key.policies) == 1 end
  local text = any_policy and redis.call("HGET", key.policies, host)
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
  else
    redis.call("HSET", key.policies, host, table.concat({ delay, concurrency, burst, blocked, paused }, " "))
    any_policy = true
  end
end

local function standing(host)
  local text = redis.call("HGET", key.hosts, host)
  if not text then return 0, 0 end
  local leased, spent = string.match(text, "^(%d+) (%d+)$")
  return tonumber(leased), tonumber(spent)
end

local function keep_standing(host, leased, spent)
  if leased > 0 or spent > now then
    redis.call("HSET", key.hosts, host, leased .. " " .. whole(spent))
  else
    redis.call("HDEL", key.hosts, host)
  end
end

-- Nothing waits for this host any more.
local function rest(host, leased, spent)
  redis.call("ZREM", key.ready, host)
  redis.call("ZREM", key.waiting, host)
  if leased > 0 then
    keep_standing(host, leased, spent)
  else
    redis.call("HDEL", key.hosts, host)
    if spent > now then redis.call("ZADD", key.idle, spent, host) end
  end
end

-- Puts the host where its requests, its standing and its policy say. `top` is its best priority, nil if it has none.
local function place(host, leased, spent, top)
  local delay, concurrency, burst, blocked, paused = policy(host)
  if top and (concurrency < 1 or ledger.state == "cancelled") then
    drop_lanes(host)
    top = nil
  end
  if not top then return rest(host, leased, spent) end
  keep_standing(host, leased, spent)
  local opens = math.max(blocked, spent - (burst - 1) * delay)
  if paused or leased >= concurrency then
    redis.call("ZREM", key.ready, host)
    redis.call("ZREM", key.waiting, host)
  elseif opens > now then
    redis.call("ZREM", key.ready, host)
    redis.call("ZADD", key.waiting, opens, host)
    expect_at(opens)
  else
    redis.call("ZREM", key.waiting, host)
    expect_ready()
    ledger.turn = ledger.turn + 1
    redis.call("ZADD", key.ready, ledger.turn - top * RANK, host)
  end
end

-- A lane of this host was empty and holds a request now.
local function wake(host)
  local leased, spent = standing(host)
  if leased == 0 and spent == 0 then
    local resting = redis.call("ZSCORE", key.idle, host)
    if resting then
      redis.call("ZREM", key.idle, host)
      spent = tonumber(resting)
    end
  end
  place(host, leased, spent, top_lane(host))
end

-- So many leases of this host have ended.
local function unlease(host, ended)
  local leased, spent = standing(host)
  local _, concurrency = policy(host)
  local left = math.max(0, leased - ended)
  if leased >= concurrency or ledger.state == "cancelled" then
    place(host, left, spent, top_lane(host))
  elseif left == 0 and not top_lane(host) then
    rest(host, left, spent)
  else
    keep_standing(host, left, spent)
  end
end
