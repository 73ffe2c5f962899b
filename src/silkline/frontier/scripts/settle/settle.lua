#!lua flags=allow-oom
-- End leases: complete, retry, release or bury; or report that their worker was lost, because of the request (strike) or possibly
-- not (suspect). A token that is no longer held ends nothing. But if its request got a strike when the lease expired, the strike is
-- withdrawn: the worker did not crash, only its connection was lost. A report makes such a strike final.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, slot, call, relied, completed: how many tokens to complete, these tokens, then for each other lease:
--         token, verb (retry, block, slow, release, postpone, bury, suspect or strike), delay in ms (of bury and strike: id of its result,
--         of a strike "" if it is not known), reason, status, record ("" keeps the stored one); or token, "complete", ms for which its
--         result is kept, id of the result, bytes that the results of the shard may take, the result; or token, "revisit", ms until its
--         next visit, "", "", record of that ("" keeps the stored one): it is completed, and delayed
--         relied names calls that the shard has acknowledged to the client: "slot number", one per line
--
-- Returns the tokens that were not held, separated by spaces; then "+N" if N dead letters were dropped, because the shard had more than
-- its limit; then "!" if calls have ended for which groups wait (see take_ended.lua). If the shard does not know the calls in relied, it
-- may have lost links of these pages: then it changes nothing and returns "lost writes".
local ledger_key, clock, slot, call, relied, completed =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local FIRST, FIELDS, MANY = 6, 6, 100
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "idempotency"
--- @include "losses"
--- @nest
--- @include "hosts"
--- @include "entries"
--- @include "announce"
--- @include "watches"
local refusal = check_ledger()
if refusal then return refusal end
local stored = replay()
if stored then return stored end
redis.call("DEL", once_key) -- first: it frees memory, see allow_oom
if has_lost(relied) then return "lost writes" end
--- @include "end_leases"

-- Stores the results of requests that were held, given the positions of their arguments by those of their tokens, and notifies who waits
-- for them.
local function keep_results(positions, texts)
--- @include "results"
  local ids, ttls, values, announced, limit = {}, {}, {}, {}, nil
  for i = completed + 1, #texts do
    local at = positions[i]
    if at and texts[i] then
      local n = #ids + 1
      ttls[n], ids[n], limit, values[n] = tonumber(ARGV[at + 2]), ARGV[at + 3], tonumber(ARGV[at + 4]), ARGV[at + 5]
      announced[n] = whole(now) .. "\n" .. values[n]
    end
  end
  if #ids == 0 then return end
  store_results(ids, ttls, values, limit)
  announce(ids, announced)
end

-- Delays completed requests until their next visits, given the positions of their arguments by those of their tokens.
local function keep_visits(positions, texts)
--- @include "visits"
  for at, i in pairs(positions) do
    if texts[at] then add_visit(texts[at], whole(number_of(ARGV[i])), tonumber(ARGV[i + 2]), ARGV[i + 5]) end
  end
  store_visits()
end

-- Completes requests: plain ones, those with a result, and those with a next visit. Returns how many are not plain.
local function complete_all()
  local tokens, results, visits, order, ended, places = {}, {}, {}, {}, {}, {}
  for i = FIRST, FIRST + completed - 1 do tokens[#tokens + 1] = ARGV[i] end
  for i = FIRST + completed, #ARGV, FIELDS do
    local verb = ARGV[i + 1]
    if verb == "complete" or verb == "revisit" then
      tokens[#tokens + 1] = ARGV[i];
      (verb == "complete" and results or visits)[#tokens] = i
    end
  end
  local first_line, length, host, places_held = nil, 0, nil, 0
  local texts = end_leases(tokens)
  note_ends(texts, DONE)
  for _, text in ipairs(texts) do
    if text and string.sub(text, 1, length) ~= first_line then -- the leases of a host usually follow each other
      length = string.find(text, "\n", 1, true)
      first_line, host, places_held = string.sub(text, 1, length), host_of(text), places_of(text)
      if not ended[host] then
        order[#order + 1] = host
        ended[host], places[host] = 0, 0
      end
    end
    if text then ended[host], places[host] = ended[host] + 1, places[host] + places_held end
  end
  read_standings(order)
  for _, host in ipairs(order) do
    ledger.done = ledger.done + ended[host]
    if ledger.host_pages then redis.call("HINCRBY", key.pages, host, ended[host]) end
    unlease(host, places[host])
  end
  if next(results) then keep_results(results, texts) end
  if next(visits) then keep_visits(visits, texts) end
  return #tokens - completed
end

-- Ends the leases with other verdicts, and handles tokens that are not held. Most calls have neither. Then Lua does not create these
-- functions, which takes longer than a small settlement.
local function end_others()
--- @include "dead_store"
--- @include "strikes"
--- @include "struck"
--- @include "withdraw_strike"
--- @include "slow_down"

  local function put_back(host, priority, item)
    if push_front(host, priority, item) then wake(host, priority) end
  end

  local function delay(token, due, text)
    redis.call("ZADD", key.delayed, due, whole(number_of(token)) .. "\n" .. text)
    expect_at(due)
  end

  -- Puts a page whose links did not fit behind the other requests of its host, if there are many. Returns whether it did.
  local function append_if_many(host, priority, item)
    local lane = queue_key(priority, host)
    if redis.call("LLEN", lane) < MANY then return false end
    redis.call("RPUSH", lane, item)
    ledger.queued = ledger.queued + 1
    return true
  end

  local function requeue(token, verb, after, host, priority, attempts, doubt, first, record)
    local item = queued_form(attempts, doubt, first, record)
    if doubt == 0 and verb == "postpone" and append_if_many(host, priority, item) then return end
    if after > 0 or doubt > 0 then
      delay(token, now + after, entry(host, priority, attempts, doubt, first, record))
    else
      put_back(host, priority, item)
    end
  end

  local COSTS_NO_ATTEMPT = { release = true, postpone = true, suspect = true }
  local LOST = { suspect = true, strike = true }

  local function end_one(token, verb, argument, reason, status, replacement)
    local after = verb ~= "bury" and tonumber(argument)
    local text = end_leases({ token })[1]
    if not text then return (LOST[verb] and take_struck or withdraw_strike)(token) end
    local host, priority, attempts, doubt, first, record = read_entry(text)
    if replacement ~= "" then record = replacement end
    if COSTS_NO_ATTEMPT[verb] then attempts = attempts - 1 end
    if LOST[verb] then
      local strikes = strikes_of(doubt) + ((verb == "strike" or doubt >= BEGUN) and 1 or 0)
      ledger.rescued = ledger.rescued + 1
      if suspect(token, host, priority, attempts, strikes, first, record, reason) then announce({ argument }, { "" }) end
    elseif verb == "bury" then
      store_dead(whole(number_of(token)), reason, status, host, entry(host, priority, attempts, strikes_of(doubt), first, record))
      announce({ argument }, { "" })
    elseif ledger.state == "cancelled" then
      ledger.discarded = ledger.discarded + 1
    else
      requeue(token, verb, after, host, priority, attempts, not_begun(doubt), first, record)
    end
    unlease(host, places_of(text))
    if verb == "block" then block(host, now + after) end
    if verb == "slow" then slow(host, token) end
  end

  for _, token in ipairs(lost) do withdraw_strike(token) end
  for i = FIRST + completed, #ARGV, FIELDS do
    if ARGV[i + 1] ~= "complete" and ARGV[i + 1] ~= "revisit" then
      end_one(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5])
    end
  end
  ledger.late = ledger.late + #lost
  compare_tokens(lost)
  write_struck()
  local dropped = keep_dead_limit()
  if dropped > 0 then lost[#lost + 1] = "+" .. dropped end
end

local others_completed = complete_all()
if #ARGV >= FIRST + completed + others_completed * FIELDS or #lost > 0 then end_others() end
finish()
if any_ended then lost[#lost + 1] = "!" end
local reply = table.concat(lost, " ")
remember(reply)
return reply
