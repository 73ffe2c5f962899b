-- Serving hosts: leases what they may start now and puts them back in their places.
-- Needs: key, ledger, now, expires, wanted, slack, hosts, entries.
--- @include "starts"
local leases, expiries = {}, {}

local function lease(text)
  ledger.token = math.max(ledger.token, now * 1024) + 1 -- grows even when a restart lost the last counter
  local token, n = whole(ledger.token), #leases
  leases[n + 1], leases[n + 2] = token, text
  expiries[n + 1], expiries[n + 2] = expires, token
end

local function lease_all(host, priority, items)
  local untried = entry(host, priority, 1, 0, now, "") -- what comes before the record of a first attempt
  for i = 1, #items do
    if is_untried(items[i]) then
      lease(untried .. items[i])
    else
      local attempts, crashes, first, record = read_queued(items[i])
      lease(entry(host, priority, attempts + 1, crashes, first, record))
    end
  end
end

-- Leases what the host may start now, out of one lane: how many, whether the lane may hold more, its new standing.
local function take(host, lane, most)
  local leased, spent = standing(host)
  local free, delay = free_starts(host, leased, spent)
  free = math.min(free, most)
  if free < 1 then return 0, true, leased, spent end
  local items = redis.call("LPOP", queue_key(lane, host), free) or {}
  lease_all(host, lane, items)
  if delay > 0 then spent = math.max(spent, now) + (delay + slack) * #items end
  return #items, #items == free, leased + #items, spent
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

-- Puts back the hosts that were served, each {host, more, leased, spent}. Most still have requests: one look tells.
local function place_served(served)
  local queues = {}
  for _, each in ipairs(served) do
    if each[2] then queues[#queues + 1] = queue_key(0, each[1]) end
  end
  local all = #queues > 0 and redis.call("EXISTS", unpack(queues)) == #queues
  for _, each in ipairs(served) do
    local host, more, leased, spent = unpack(each)
    place(host, leased, spent, more and (all or has_requests(0, host)) and 0 or nil, "nowhere")
  end
end

-- Takes the first hosts in line out of it and serves them. Only while all have the same priority: who is put back then
-- comes after the others.
local function serve_line(taken)
  local each = ledger.delay == 0 and ledger.concurrency or 1
  local line, hosts = redis.call("ZPOPMIN", key.ready, math.ceil((wanted - taken) / each)), {}
  for i = 1, #line, 2 do hosts[#hosts + 1] = line[i] end
  read_standings(hosts)
  read_policies(hosts)
  local served, unserved = {}, {}
  for i, host in ipairs(hosts) do
    if taken < wanted then
      local count, more, leased, spent = take(host, 0, wanted - taken)
      served[i] = { host, more, leased, spent }
      taken = taken + count
    else
      unserved[#unserved + 1] = line[i * 2]
      unserved[#unserved + 1] = host
    end
  end
  place_served(served)
  if #unserved > 0 then redis.call("ZADD", key.ready, unpack(unserved)) end
  return taken
end
