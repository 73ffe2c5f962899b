#!lua flags=allow-oom
-- End leases: complete, retry, release or bury. A token that is no longer held changes nothing.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, slot, call, completed: how many tokens to complete, these tokens, then per other ending:
--         token, verb (retry, block, slow, release or bury), delay in ms, reason, status, record ("" keeps the stored one)
--
-- Returns the tokens that were not held, separated by spaces.
local root, clock, slot, call, completed = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local FIRST, FIELDS = 5, 6
--- @include "steady"
--- @include "keys"
--- @include "ledger"
--- @include "once"
--- @include "hosts"
--- @include "entries"
--- @include "graves"
local refusal = read_ledger()
if refusal then return refusal end
local answered = replay()
if answered then return answered end
redis.call("DEL", once_key) -- a first write that frees memory lets old servers finish the script when memory is short
local lost = {}

-- Ends the leases of these tokens; answers their entries, false where one was not held.
local function end_leases(tokens)
  if #tokens == 0 then return {} end
  local texts = redis.call("HMGET", key.leased, unpack(tokens))
  local held, ended = redis.call("HDEL", key.leased, unpack(tokens)), {}
  redis.call("ZREM", key.leases, unpack(tokens))
  local twice = held < #tokens -- or some were not held; a token that is given twice ends once
  for i, token in ipairs(tokens) do
    if twice and ended[token] then texts[i] = false end
    if twice then ended[token] = true end
    if not texts[i] then lost[#lost + 1] = token end
  end
  return texts
end

local function complete_all()
  local tokens, order, ended, places = {}, {}, {}, {}
  for i = FIRST, FIRST + completed - 1 do tokens[#tokens + 1] = ARGV[i] end
  for i, text in ipairs(end_leases(tokens)) do
    local host = text and host_of(text)
    if text and not ended[host] then
      order[#order + 1] = host
      ended[host], places[host] = 0, 0
    end
    if text then ended[host], places[host] = ended[host] + 1, places[host] + places_of(text) end
  end
  read_standings(order)
  for _, host in ipairs(order) do
    ledger.done = ledger.done + ended[host]
    if ledger.host_pages then redis.call("HINCRBY", key.pages, host, ended[host]) end
    unlease(host, places[host])
  end
end

local function block(host, time)
  local words = own_policy(host)
  words[4] = whole(math.max(tonumber(words[4]) or 0, time))
  keep_policy(host, words)
  local leased, spent = standing(host)
  place(host, leased, spent, top_lane(host))
end

-- The site complained without saying for how long: the host's delay doubles, counted from now. Requests that were
-- under way when it was doubled last know nothing of the new pace, so their complaints are the same one again.
local LEAST_SLOWED, MOST_SLOWED = 250, 3600000

local function slow(host, token)
  local words, started = own_policy(host), math.floor(tonumber(token) / 1024)
  if started <= (tonumber(words[SINCE]) or 0) then return end
  local slowed = math.min(math.max(policy(host) * 2, LEAST_SLOWED), MOST_SLOWED)
  words[SLOWED], words[SINCE] = whole(slowed), whole(now)
  keep_policy(host, words)
  local leased, spent, stored = standing(host)
  if not stored then spent = tonumber(redis.call("ZSCORE", key.idle, host) or 0) end
  local delay = policy(host)
  place(host, leased, math.max(spent, now + delay), top_lane(host))
end

local function put_back(host, priority, item)
  if push_front(host, priority, item) then wake(host, priority) end
end

local function delay(token, due, text)
  redis.call("ZADD", key.delayed, due, token .. "\n" .. text)
  expect_at(due)
end

local function end_one(token, verb, after, reason, status, replacement)
  local text = end_leases({ token })[1]
  if not text then return end
  local host, priority, attempts, crashes, first, record = read_entry(text)
  if replacement ~= "" then record = replacement end
  if verb == "release" then attempts = attempts - 1 end
  if verb == "bury" then
    lay_dead(token, reason, status, host, entry(host, priority, attempts, crashes, first, record))
  elseif ledger.state == "cancelled" then
    ledger.discarded = ledger.discarded + 1
  elseif after > 0 then
    delay(token, now + after, entry(host, priority, attempts, crashes, first, record))
  else
    put_back(host, priority, queued_form(attempts, crashes, first, record))
  end
  unlease(host, places_of(text))
  if verb == "block" then block(host, now + after) end
  if verb == "slow" then slow(host, token) end
end

complete_all()
for i = FIRST + completed, #ARGV, FIELDS do
  end_one(ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3], ARGV[i + 4], ARGV[i + 5])
end
ledger.late = ledger.late + #lost
finish()
answered = table.concat(lost, " ")
remember(answered)
return answered
