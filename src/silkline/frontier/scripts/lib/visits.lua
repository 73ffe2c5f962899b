-- Delays requests that are done until their next visits. They count as accepted once more, and stay in the seen filter, so that a link
-- to them does not queue them a second time.
-- Needs: key, now, ledger, notify, entries.
local members, soonest = {}, math.huge

-- Adds a request, given its entry, a number, the ms until its next visit, and its new record ("" keeps the stored one).
local function add_visit(text, number, after, replacement)
  if ledger.state == "cancelled" then return end
  local host, priority, _, _, _, record = read_entry(text)
  if replacement ~= "" then record = replacement end
  local n, due = #members, now + after
  members[n + 1], members[n + 2] = whole(due), number .. "\n" .. entry(host, priority, 0, 0, 0, record)
  soonest = math.min(soonest, due)
end

local function store_visits()
  if #members == 0 then return end
  redis.call("ZADD", key.delayed, unpack(members))
  ledger.accepted = ledger.accepted + #members / 2
  expect_at(soonest)
end
