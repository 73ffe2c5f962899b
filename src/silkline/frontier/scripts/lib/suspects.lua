-- Suspects: requests whose worker was lost while holding them. They wait among the delayed requests, and are leased one at a time, so
-- that a request that crashes workers is found and other requests get no strikes for it.
-- A suspect with a strike is leased alone: a caller that holds other requests is asked to finish them first.
-- Needs: key, ledger, now, slack, wanted, suspect_policy, suspects_left, isolate, hosts, entries, lease_hosts, struck.
local LOOK_AGAIN_MS = 250 -- delay of a suspect whose host may not be fetched now
local ISOLATE_MS = 30000 -- how long one caller may take to finish its other requests
local NONE, BESIDE = "none", "beside"

local function wait_until(member, time)
  redis.call("ZADD", key.delayed, whole(math.ceil(time)), member)
end

-- Returns the standing of a host that may have no requests and be in `idle`.
local function standing_at_rest(host)
  local leased, spent, stored = standing(host)
  local resting = not stored and redis.call("ZSCORE", key.idle, host)
  return leased, resting and tonumber(resting) or spent, resting
end

-- Returns the number of a waiting suspect, and its entry.
local function read_waiting(member)
  return number_of(member), string.sub(member, string.find(member, "\n", 1, true) + 1)
end

-- Leases a suspect if its host may be fetched now, else delays it until then. Returns its strikes if it was leased, else nil.
local function lease_suspect(member)
  local number, text = read_waiting(member)
  local host, priority, attempts, doubt, first, record = read_entry(text)
  local leased, spent, resting = standing_at_rest(host)
  local delay, concurrency, burst, blocked = policy(host)
  if concurrency < 1 then -- its budget of pages is spent
    redis.call("ZREM", key.delayed, member)
    ledger.discarded = ledger.discarded + 1
    return nil
  end
  if free_starts(host, leased, spent) < 1 then
    local opens = math.max(blocked, spent - (burst - 1) * delay)
    wait_until(member, opens > now and opens or now + LOOK_AGAIN_MS)
    return nil
  end
  redis.call("ZREM", key.delayed, member)
  if resting then redis.call("ZREM", key.idle, host) end
  local strikes = strikes_left(number, attempts, doubt)
  local token = lease(entry(host, priority, attempts + 1, SUSPECT + strikes, first, record))
  if strikes_of(doubt) > 0 then follow_struck(number, token) end
  if delay > 0 then spent = spend(host, spent, delay, 1) end
  place(host, leased + 1, spent, top_lane(host))
  return strikes
end

local function is_struck(member)
  local number, text = read_waiting(member)
  local _, _, attempts, doubt = read_entry(text)
  return strikes_left(number, attempts, doubt) > 0
end

-- Asks the caller to finish its other requests, unless another caller was asked recently.
local function ask_to_isolate()
  if tonumber(redis.call("HGET", key.ledger, "isolate") or 0) > now then return end
  redis.call("HSET", key.ledger, "isolate", whole(now + ISOLATE_MS))
  isolate = true
end

-- Leases the first of these suspects that may be leased. If more delayed requests are due (`more_due`), the other suspects are delayed
-- for a moment, so that they do not block them.
local function lease_one_of(suspects, more_due)
  for _, member in ipairs(suspects) do
    if wanted < 1 or suspect_policy == NONE then
      if more_due then wait_until(member, now + LOOK_AGAIN_MS) end
      suspects_left = suspects_left or count > 0
    elseif suspect_policy == BESIDE and is_struck(member) then
      ask_to_isolate()
      if more_due then wait_until(member, now + LOOK_AGAIN_MS) end
    else
      local strikes = lease_suspect(member)
      if strikes then
        wanted = strikes > 0 and 0 or wanted - 1
        suspect_policy = NONE
      end
    end
  end
end
