-- Stores and removes dead letters, with their index by host and their counts by reason and by host.
--
-- The number of names with their own count is limited. Letters with other names are counted together, under the name "". A letter that
-- is removed decrements the count of its name if it has one, else that of "", so no count gets too low.
-- While fsck counts them again (see recount), `recount` is the burial time up to which letters are counted.
-- Needs: key, ledger, now.
--- @include "reasons"
--- @include "dead_by_host"
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

-- Returns whether a letter with this burial time is counted.
local function is_counted(buried)
  return not ledger.recount or buried <= ledger.recount
end

-- Stores a request as a dead letter. Lines: reason, status, then its entry.
local function store_dead(id, reason, status, host, text)
  redis.call("HSET", key.dead, id, reason .. "\n" .. status .. "\n" .. text)
  redis.call("ZADD", key.buried, now, id)
  redis.call("ZADD", key.dead_by_host, 0, index_member(host, now, id))
  if is_counted(now) then count_letter(reason, host) end
end

-- Removes a dead letter.
local function remove_dead(id, reason, host)
  local buried = tonumber(redis.call("ZSCORE", key.buried, id) or 0)
  redis.call("HDEL", key.dead, id)
  redis.call("ZREM", key.buried, id)
  redis.call("ZREM", key.dead_by_host, index_member(host, buried, id))
  if not is_counted(buried) then return end
  count_out(key.dead_hosts, host)
  ledger.counted = math.max(0, ledger.counted - count_out(key.dead_reasons, reason_group(reason)))
end
