-- Moves delayed requests that are due to their queues.
-- Needs: key, now, hosts, entries.

-- Splits delayed requests, in order, into those for the queues (with their entries) and suspects.
local function sort_due(due)
  local promoted, texts, suspects = {}, {}, {}
  for _, member in ipairs(due) do
    local text = string.sub(member, string.find(member, "\n", 1, true) + 1)
    if is_suspect(text) then
      suspects[#suspects + 1] = member
    else
      promoted[#promoted + 1], texts[#texts + 1] = member, text
    end
  end
  return promoted, texts, suspects
end

-- Moves delayed requests, of which none is a suspect, to the front of their queues; the first of them comes first.
local function promote_all(promoted, texts)
  if #promoted > 0 then redis.call("ZREM", key.delayed, unpack(promoted)) end
  local hosts, opened = {}, {}
  for i = #texts, 1, -1 do
    local host, priority, attempts, doubt, first, record = read_entry(texts[i])
    hosts[i] = host
    if push_front(host, priority, queued_form(attempts, doubt, first, record)) then opened[host] = priority end
  end
  for _, host in ipairs(hosts) do -- in the order in which they are due
    if opened[host] then wake(host, opened[host]) end
    opened[host] = nil
  end
end

-- Moves due requests to the front of their queues. Returns the suspects among them, which stay where they are, and whether more
-- requests may be due.
local function promote_due(most)
  local due = redis.call("ZRANGEBYSCORE", key.delayed, "-inf", now, "LIMIT", 0, most)
  if #due == 0 then return due, false end
  local promoted, texts, suspects = sort_due(due)
  promote_all(promoted, texts)
  return suspects, #due == most
end
