-- Serving hosts: leases what they may start now and puts them back in their places.
-- Most of a claim's time goes into what is done here for each host, and into collecting the strings and tables that are
-- made for it: so there are as few of them as can be.
-- Needs: key, ledger, now, expires, wanted, slack, hosts, entries.
--- @include "starts"
local HEADS = 3 -- the reply's own fields, before the leases
local leases, expiries, count = { "", "", "" }, {}, 0
local untried = {} -- by lane: what stands between the host and the record of a first attempt

local function lease(text)
  ledger.token = math.max(ledger.token, now * 1024) + 1 -- grows even when a restart lost the last counter
  local token, n = whole(ledger.token), count * 2
  leases[HEADS + n + 1], leases[HEADS + n + 2] = token, text
  expiries[n + 1], expiries[n + 2] = expires, token
  count = count + 1
end

local function lease_item(host, lane, item)
  if is_untried(item) then
    if not untried[lane] then untried[lane] = between(lane, 1, 0, now) end
    lease(host .. untried[lane] .. item)
  else
    local attempts, crashes, first, record = read_queued(item)
    lease(entry(host, lane, attempts + 1, crashes, first, record))
  end
end

-- Leases up to so many requests of one lane: how many it had.
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

-- Leases what the host may start now, out of one lane: how many, whether the lane may hold more, its new standing.
local function take(host, lane, most)
  local leased, spent = standing(host)
  local free, delay = free_starts(host, leased, spent)
  free = math.min(free, most)
  if free < 1 then return 0, true, leased, spent end
  local taken = lease_some(host, lane, free)
  if delay > 0 then spent = math.max(spent, now) + (delay + slack) * taken end
  return taken, taken == free, leased + taken, spent
end

-- Serves one host of the line, whatever its lanes.
local function serve(host, most)
  local lane = best_lane(host)
  local taken, more, leased, spent = take(host, lane, most)
  if not (more and has_requests(lane, host)) then
    close_lane(host, lane)
    lane = lanes_of(host) and best_lane(host) or lane ~= 0 and top_lane(host) or nil
  end
  place(host, leased, spent, lane, "ready")
  return taken
end

-- Whether all of these hosts that may hold more requests do: most often one look tells.
local function all_have_more(hosts, more, served)
  local queues = {}
  for i = 1, served do
    if more[i] then queues[#queues + 1] = queue_key(0, hosts[i]) end
  end
  return #queues > 0 and redis.call("EXISTS", unpack(queues)) == #queues
end

-- Takes the first hosts in line out of it and serves them. Only while all have the same priority: who is put back then
-- comes after the others.
local function serve_line(taken)
  local each = ledger.delay == 0 and ledger.concurrency or 1
  local hosts = redis.call("ZRANGE", key.ready, 0, math.ceil((wanted - taken) / each) - 1)
  read_standings(hosts)
  read_policies(hosts)
  local served, more, leased, spent, got = 0, {}, {}, {}, nil
  while served < #hosts and taken < wanted do
    served = served + 1
    got, more[served], leased[served], spent[served] = take(hosts[served], 0, wanted - taken)
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
