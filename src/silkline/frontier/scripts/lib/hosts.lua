-- Hosts: their standing (leases in progress, and `spent`), their policy, and their place.
--
-- Each start adds one delay to `spent`, a time in ms. The next start is allowed `burst - 1` delays before `spent`. Both may have
-- thousandths: a task that starts 5,000 calls per second has a delay of 0.2.
-- A host with requests is in exactly one place: `ready` (it may be claimed), `waiting` (it opens later), or neither (at its cap, or
-- paused). A host without requests is in neither; until its delay is over it is in `idle`.
-- Needs: key, ledger, now, lanes, notify, wait_marks.
--- @include "lanes"
--- @include "notify"
--- @include "wait_marks"
--- @include "ready"
local any_policy
local policies = {} -- cache of this call (false: the host has no policy)

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

-- The words of a host's own policy: delay, concurrency, burst, blocked until, paused, then the crawl delay of robots.txt, the slowed
-- delay, and the time since which it applies. "-" means not set; the last three are omitted if none of them is set.
local WORDS = "^(%S+) (%S+) (%S+) (%S+) (%S+) ?(%S*) ?(%S*) ?(%S*)$"
local BLOCKED, CRAWL_DELAY, SLOWED, SINCE = 4, 6, 7, 8

local function own_policy(host)
  local words = { string.match(policy_text(host) or "- - - - -", WORDS) }
  for i = CRAWL_DELAY, SINCE do
    if words[i] == "" then words[i] = "-" end
  end
  return words
end

-- A host that asked to slow down gets a slowed delay. It applies unchanged for its own length, so that one request can test the
-- host; then it halves every minute, the usual window of a rate limit. It depends only on the time, so it needs no writes.
local HALF_LIFE = 60000

local function slowed_now(slowed, since)
  return math.floor(slowed * 2 ^ (-math.max(0, now - since - slowed) / HALF_LIFE) + 0.5)
end

-- Returns the host's delay without a slow-down: its own, or else the longer of the crawl's and that of robots.txt.
local function base_delay(own, crawl_delay)
  return tonumber(own) or math.max(ledger.delay, tonumber(crawl_delay) or 0)
end

-- Parses a policy. Many hosts have the same text, so the result is cached for this call.
local parsed = {}

local function parse_policy(text)
  local found = parsed[text]
  if found then return found end
  local d, c, b, u, p, asked, slowed, since = string.match(text, WORDS)
  local base = base_delay(d, asked)
  local slower = tonumber(slowed) and slowed_now(tonumber(slowed), tonumber(since))
  local delay = math.max(base, slower or 0)
  local blocked = tonumber(u) or 0
  found = {
    delay = delay,
    concurrency = tonumber(c) or ledger.concurrency,
    burst = delay > base and 1 or tonumber(b) or ledger.burst, -- a slowed host gets no burst
    blocked = blocked,
    paused = p == "1",
    base = base,
    over = (u ~= "-" and blocked <= now) or slower == 0,
  }
  parsed[text] = found
  return found
end

-- Returns delay, concurrency, burst, blocked until and paused as they apply to the host now; its delay without a slow-down; and
-- whether a block or a slow-down is stored that is over.
local function policy(host)
  local current = parse_policy(policy_text(host) or "- - - - -")
  local concurrency = current.concurrency
  if ledger.host_pages then
    local done = tonumber(redis.call("HGET", key.pages, host) or 0)
    concurrency = math.min(concurrency, ledger.host_pages - done)
  end
  return current.delay, concurrency, current.burst, current.blocked, current.paused, current.base, current.over
end

-- Returns whether none of these words is set.
local function is_default(words)
  return string.find(table.concat(words, ""), "^%-*$") ~= nil
end

-- Stores a policy, given its words. Returns the stored text.
local function store_policy(host, words)
  local text = string.gsub(table.concat(words, " "), " %- %- %-$", "")
  if is_default(words) then
    redis.call("HDEL", key.policies, host)
    policies[host] = false
  else
    policies[host] = text
    redis.call("HSET", key.policies, host, text)
    any_policy = true
  end
  return text
end

-- Deletes a block that is over and a slow-down that has decayed, because many hosts get one at some time. A slow-down that is shorter
-- than the host's delay is kept: that delay may be lowered.
local function delete_expired_policy(host)
  local words = own_policy(host)
  if (tonumber(words[BLOCKED]) or 0) <= now then words[BLOCKED] = "-" end
  if tonumber(words[SLOWED]) and slowed_now(tonumber(words[SLOWED]), tonumber(words[SINCE])) == 0 then
    words[SLOWED], words[SINCE] = "-", "-"
  end
  store_policy(host, words)
end

-- Standings are cached during a call (false: nothing is stored); `changed` ones are written at its end.
local standings, changed = {}, {}

-- Reads the standings of many hosts at once.
local function read_standings(hosts)
  if #hosts == 0 then return end
  local texts = redis.call("HMGET", key.hosts, unpack(hosts))
  for i, host in ipairs(hosts) do
    if standings[host] == nil then standings[host] = texts[i] end
  end
end

-- Returns the leases in progress, `spent`, and whether they are stored.
local function standing(host)
  if standings[host] == nil then standings[host] = redis.call("HGET", key.hosts, host) end
  local text = standings[host]
  if not text then return 0, 0, false end
  local leased, spent = string.match(text, "^(%d+) (%S+)$")
  return tonumber(leased), tonumber(spent), true
end

local function change_standing(host, text)
  if standings[host] == text then return end
  standings[host] = text
  changed[host] = true
end

local function set_standing(host, leased, spent)
  change_standing(host, (leased > 0 or spent > now) and leased .. " " .. milliseconds(spent))
end

local function write_standings()
  local updated, gone = {}, {}
  for host in pairs(changed) do
    if standings[host] then
      updated[#updated + 1] = host
      updated[#updated + 1] = standings[host]
    else
      gone[#gone + 1] = host
    end
  end
  if #gone > 0 then redis.call("HDEL", key.hosts, unpack(gone)) end
  if #updated > 0 then redis.call("HSET", key.hosts, unpack(updated)) end
end

-- Removes the host from its place before (`from`: ready, waiting, nowhere, or nil if it is not known).
local function leave(host, from, to)
  if from ~= "nowhere" and from ~= "waiting" and to ~= "ready" then redis.call("ZREM", key.ready, host) end
  if from ~= "nowhere" and from ~= "ready" and to ~= "waiting" then redis.call("ZREM", key.waiting, host) end
end

-- Places a host that has no requests: it rests until its delay is over.
local function rest(host, leased, spent, from)
  leave(host, from)
  if leased > 0 then return set_standing(host, leased, spent) end
  change_standing(host, false)
  if spent > now then redis.call("ZADD", key.idle, spent, host) end
end

-- Places the host according to its requests, standing and policy. `top` is the highest priority with requests, or nil; `from` is its
-- place before, nil if it is not known.
local function place(host, leased, spent, top, from)
  local delay, concurrency, burst, blocked, paused, _, over = policy(host)
  if top and (concurrency < 1 or ledger.state == "cancelled") then
    drop_lanes(host)
    top = nil
  end
  if not top then return rest(host, leased, spent, from) end
  if over then delete_expired_policy(host) end
  set_standing(host, leased, spent)
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

-- Places a host after its empty lane at this priority has got a request.
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

-- Frees `ended` places of this host. While the politeness of the crawl is being changed, `ledger.pacing` is the lowest cap at which
-- hosts may be that have not been placed again yet.
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
    set_standing(host, left, spent)
  end
end

-- Must be called at the end of a call that may have changed hosts.
local function finish()
  write_standings()
  mark_turns(entered.turn + 1, ledger.turn)
  write_ledger()
  compare_ready()
  notify()
end
