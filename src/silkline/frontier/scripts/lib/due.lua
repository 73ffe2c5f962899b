-- What is due: requests that were delayed, hosts that were waiting.
-- Needs: key, now, hosts, entries.

-- Returns requests that are due to the front of their queues.
local function promote_due(most)
  local due = redis.call("ZRANGEBYSCORE", key.delayed, "-inf", now, "LIMIT", 0, most)
  if #due == 0 then return end
  redis.call("ZREM", key.delayed, unpack(due))
  local hosts, opened = {}, {}
  for i = #due, 1, -1 do
    local text = string.sub(due[i], string.find(due[i], "\n", 1, true) + 1)
    local host, priority, attempts, crashes, first, record = read_entry(text)
    hosts[i] = host
    if push_front(host, priority, queued_form(attempts, crashes, first, record)) then opened[host] = priority end
  end
  for _, host in ipairs(hosts) do -- the first due is the first in line
    if opened[host] then wake(host, opened[host]) end
    opened[host] = nil
  end
end

-- Puts hosts into line whose time has come, and forgets those that have rested.
local function open_due_hosts(most)
  local due = redis.call("ZRANGEBYSCORE", key.waiting, "-inf", now, "LIMIT", 0, most)
  read_standings(due)
  for _, host in ipairs(due) do
    local leased, spent = standing(host)
    place(host, leased, spent, best_lane(host), "waiting")
  end
  local rested = redis.call("ZRANGEBYSCORE", key.idle, "-inf", now, "LIMIT", 0, most * 2)
  if #rested > 0 then redis.call("ZREM", key.idle, unpack(rested)) end
end
