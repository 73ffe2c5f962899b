-- Leases the requests that hosts may start now, and places the hosts again.
-- A claim spends most of its time here, and in collecting the strings and tables that this code creates, so it creates few.
-- Needs: key, ledger, now, expires, nonce, wanted, slack_words, hosts, entries.
--- @include "pace"
local HEADS = 3 -- fields of the reply before the leases
local leases, expiries, count = { "", "", "" }, {}, 0
local token_form = "%d" .. nonce
local slack, prompt = tonumber(slack_words), nil -- `prompt`: hosts to which the slack does not apply
if not slack then
  slack, prompt = tonumber(string.match(slack_words, "^%d+")), {}
  for host in string.gmatch(slack_words, " (%S+)") do prompt[host] = true end
end
local untried = {} -- by lane: the part of an entry between host and record, for a first attempt

local function lease(text)
  local number, n = ledger.token + 1, count * 2
  if number <= now * 1024 then number = now * 1024 + 1 end -- grows even if a restart lost the last value
  local token = string.format(token_form, number)
  ledger.token = number
  leases[HEADS + n + 1], leases[HEADS + n + 2] = token, text
  expiries[n + 1], expiries[n + 2] = expires, token
  count = count + 1
  return token
end

local function lease_item(host, lane, item)
  if is_untried(item) then
    if not untried[lane] then untried[lane] = between(lane, 1, 0, now) end
    lease(host .. untried[lane] .. item)
  else
    local attempts, doubt, first, record = read_queued(item)
    lease(entry(host, lane, attempts + 1, doubt, first, record))
  end
end

-- Leases up to `most` requests of one lane. Returns how many.
local function lease_some(host, lane, most)
  if most == 1 then
    local item = redis.call("LPOP", queue_key(lane, host))
    if item then lease_item(host, lane, item) end
    return item and 1 or 0
  end
  local items = redis.call("LPOP", queue_key(lane, host), most) or {}
  for i = 1, #items do lease_item(host, lane, items[i]) end
  return #items
end

-- Returns `spent` after this many starts.
local function spend(host, spent, delay, starts)
  return math.max(spent, now) + (delay + (prompt and prompt[host] and 0 or slack)) * starts
end

-- Leases what the host may start now from one lane. Returns how many, whether the lane may have more, and the new standing.
local function lease_from(host, lane, most)
  local leased, spent = standing(host)
  local free, delay = free_starts(host, leased, spent)
  free = math.min(free, most)
  if free < 1 then return 0, true, leased, spent end
  local taken = lease_some(host, lane, free)
  if delay > 0 then spent = spend(host, spent, delay, taken) end
  return taken, taken == free, leased + taken, spent
end

-- Leases requests of one ready host, with any lanes. Returns how many.
local function lease_host(host, most)
  local lane = best_lane(host)
  local taken, more, leased, spent = lease_from(host, lane, most)
  if not (more and has_requests(lane, host)) then
    close_lane(host, lane)
    lane = lanes_of(host) and best_lane(host) or lane ~= 0 and top_lane(host) or nil
  end
  place(host, leased, spent, lane, "ready")
  return taken
end

-- Returns whether all hosts that may have more requests do; usually true, so one command checks all of them.
local function all_have_more(hosts, more, served)
  local queues = {}
  for i = 1, served do
    if more[i] then queues[#queues + 1] = queue_key(0, hosts[i]) end
  end
  return #queues > 0 and redis.call("EXISTS", unpack(queues)) == #queues
end

-- Leases requests of the first ready hosts with few commands. Only correct if all requests have the same priority: a host that is
-- placed again then comes after the others.
local function lease_ready_hosts(taken)
  local each = ledger.delay == 0 and ledger.concurrency or 1
  local hosts = redis.call("ZRANGE", key.ready, 0, math.ceil((wanted - taken) / each) - 1)
  read_standings(hosts)
  read_policies(hosts)
  local served, more, leased, spent, got = 0, {}, {}, {}, nil
  while served < #hosts and taken < wanted do
    served = served + 1
    got, more[served], leased[served], spent[served] = lease_from(hosts[served], 0, wanted - taken)
    taken = taken + got
  end
  redis.call("ZREMRANGEBYRANK", key.ready, 0, served - 1)
  local all = all_have_more(hosts, more, served)
  for i = 1, served do
    local host = hosts[i]
    place(host, leased[i], spent[i], more[i] and (all or has_requests(0, host)) and 0 or nil, "nowhere")
  end
  return taken
end
