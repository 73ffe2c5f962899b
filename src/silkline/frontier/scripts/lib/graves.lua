-- Dead letters: laid down, lifted, listed by host, and counted by reason and by host, so that nobody has to count them one by
-- one.
--
-- Only so many names are counted apart; the letters of further ones are counted together, under the name "". A letter that
-- is lifted is taken off its own name as long as that has any, else off "": so no count falls below what is there.
-- While they are counted anew (see recount), `recount` is the time up to which letters are counted.
-- Needs: key, ledger, now.
--- @include "reasons"
--- @include "listed"
local MOST_REASONS, MOST_HOSTS = 1000, 100000

local function count_in(group_key, most, name)
  if not redis.call("ZSCORE", group_key, name) and redis.call("ZCARD", group_key) >= most then name = "" end
  redis.call("ZINCRBY", group_key, 1, name)
end

local function count_out(group_key, name)
  if not redis.call("ZSCORE", group_key, name) then name = "" end
  local count = tonumber(redis.call("ZSCORE", group_key, name) or 0)
  if count > 1 then
    redis.call("ZINCRBY", group_key, -1, name)
  elseif count == 1 then
    redis.call("ZREM", group_key, name)
  end
  return math.min(count, 1)
end

local function count_letter(reason, host)
  count_in(key.dead_reasons, MOST_REASONS, reason_group(reason))
  count_in(key.dead_hosts, MOST_HOSTS, host)
  ledger.counted = ledger.counted + 1
end

-- Whether a letter that was buried at this time is counted.
local function is_counted(buried)
  return not ledger.recount or buried <= ledger.recount
end

-- Lays a request down as a dead letter. Lines: reason, status, then its entry.
local function lay_dead(id, reason, status, host, text)
  redis.call("HSET", key.dead, id, reason .. "\n" .. status .. "\n" .. text)
  redis.call("ZADD", key.buried, now, id)
  redis.call("ZADD", key.dead_by_host, 0, listed_as(host, now, id))
  if is_counted(now) then count_letter(reason, host) end
end

-- Takes a dead letter away.
local function lift_dead(id, reason, host)
  local buried = tonumber(redis.call("ZSCORE", key.buried, id) or 0)
  redis.call("HDEL", key.dead, id)
  redis.call("ZREM", key.buried, id)
  redis.call("ZREM", key.dead_by_host, listed_as(host, buried, id))
  if not is_counted(buried) then return end
  count_out(key.dead_hosts, host)
  ledger.counted = math.max(0, ledger.counted - count_out(key.dead_reasons, reason_group(reason)))
end
