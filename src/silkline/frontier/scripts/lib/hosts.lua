-- Hosts: their standing (leases held now, and the time at which their pace is spent), their policy, their place.
--
-- A host with requests is in exactly one place: `ready` (it may be claimed), `waiting` (it opens later), or in
-- neither (at its cap, or paused). A host without requests is in neither; while its delay lasts it rests in `idle`.
-- Needs: key, ledger, now, lanes, bell, turns.
--- @include "lanes"
--- @include "bell"
--- @include "turns"
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

-- The words of a host's own policy: delay, concurrency, burst, blocked until, paused, then what robots.txt asks, the
-- slowed delay, and since when it holds. "-" stands for what it has not; the last three are left out where it has none.
local WORDS = "^(%S+) (%S+) (%S+) (%S+) (%S+) ?(%S*) ?(%S*) ?(%S*)$"
local CRAWL_DELAY, SLOWED, SINCE = 6, 7, 8

local function own_policy(host)
  local words = { string.match(policy_text(host) or "- - - - -", WORDS) }
  for i = CRAWL_DELAY, SINCE do
    if words[i] == "" then words[i] = "-" end
  end
  return words
end

-- A site that complained is given a slowed delay. It holds in full for as long as it lasts itself, so that one request
-- can show how the site is now; then it halves every minute, the usual window of a rate limit. Only time decides, so it
-- is the same for all clients and costs no write.
local HALF_LIFE = 60000

local function slowed_now(slowed, since)
  return math.floor(slowed * 2 ^ (-math.max(0, now - since - slowed) / HALF_LIFE) + 0.5)
end

-- The host's delay without a slow-down: its own, or else the longer of the crawl's and the one robots.txt asks for.
local function base_delay(own, crawl_delay)
  return tonumber(own) or math.max(ledger.delay, tonumber(crawl_delay) or 0)
end

-- What a policy's text means now. Many hosts have the same one, or none: it is read once a call.
local meanings = {}

local function meaning(text)
  local known = meanings[text]
  if known then return known end
  local d, c, b, u, p, asked, slowed, since = string.match(text, WORDS)
  local base = base_delay(d, asked)
  local delay = tonumber(slowed) and math.max(base, slowed_now(tonumber(slowed), tonumber(since))) or base
  local blocked = tonumber(u) or 0
  known = {
    delay = delay,
    concurrency = tonumber(c) or ledger.concurrency,
    burst = delay > base and 1 or tonumber(b) or ledger.burst, -- a site that complains is not given several at once
    blocked = blocked,
    paused = p == "1",
    base = base,
    over = (u ~= "-" and blocked <= now) or (tonumber(slowed) and delay <= base) or false,
  }
  meanings[text] = known
  return known
end

-- delay, concurrency, burst, blocked until, paused: as they hold for the host; its delay without a slow-down; and
-- whether a block or a slow-down is over that is still stored
local function policy(host)
  local holds = meaning(policy_text(host) or "- - - - -")
  local concurrency = holds.concurrency
  if ledger.host_pages then
    local done = tonumber(redis.call("HGET", key.pages, host) or 0)
    concurrency = math.min(concurrency, ledger.host_pages - done)
  end
  return holds.delay, concurrency, holds.burst, holds.blocked, holds.paused, holds.base, holds.over
end

-- Keeps what the words say; answers it as it is kept.
local function keep_policy(host, words)
  local text = string.gsub(table.concat(words, " "), " %- %- %-$", "")
  if text == "- - - - -" then
    redis.call("HDEL", key.policies, host)
    policies[host] = false
  else
    policies[host] = text
    redis.call("HSET", key.policies, host, text)
    any_policy = true
  end
  return text
end

-- A block that is over is forgotten, and so is a slow-down that has decayed: many hosts have one once.
local function forget_what_is_over(host)
  local words, delay, _, _, blocked, _, base = own_policy(host), policy(host)
  if blocked <= now then words[4] = "-" end
  if delay <= base then words[SLOWED], words[SINCE] = "-", "-" end
  keep_policy(host, words)
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
  local delay, concurrency, burst, blocked, paused, _, over = policy(host)
  if top and (concurrency < 1 or ledger.state == "cancelled") then
    drop_lanes(host)
    top = nil
  end
  if not top then return rest(host, leased, spent, from) end
  if over then forget_what_is_over(host) end
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

-- So many places of this host are free again. While the crawl is given another pace, `ledger.pacing` is the lowest cap at
-- which hosts may stand that were not looked at yet.
local function unlease(host, ended)
  local leased, spent = standing(host)
  local _, concurrency = policy(host)
  local left = math.max(0, leased - ended)
  if leased >= math.min(concurrency, ledger.pacing or concurrency) or ledger.state == "cancelled" then
    local at_cap = leased >= concurrency and not ledger.host_pages and not ledger.pacing
    place(host, left, spent, top_lane(host), at_cap and "nowhere" or nil)
  elseif left == 0 and not top_lane(host) then
    rest(host, left, spent, "nowhere")
  else
    keep_standing(host, left, spent)
  end
end

-- Ends a call that may have changed hosts.
local function finish()
  write_standings()
  mark_turns(entered.turn + 1, ledger.turn)
  write_ledger()
  ring()
end
