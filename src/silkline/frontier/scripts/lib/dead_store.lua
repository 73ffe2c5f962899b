-- Stores and removes dead letters, with their index by host and their counts by reason and by host. Beyond the limit of the shard, the
-- oldest letters are dropped.
--
-- The number of names with their own count is limited. Letters with other names are counted together, under the name "". A letter that
-- is removed decrements the count of its name if it has one, else that of "", so no count gets too low.
-- While fsck counts them again (see recount), `recount` is the burial time up to which letters are counted.
-- Needs: key, ledger, now.
--- @include "reasons"
--- @include "dead_by_host"
--- @include "watches"
local MOST_REASONS, MOST_HOSTS = 1000, 100000
local MOST_MORE = 100 -- letters that a call may drop besides as many as it has stored
local stored_letters = 0 -- of this call

local function count_in(group_key, most, name)
  if not redis.call("ZSCORE", group_key, name) and redis.call("ZCARD", group_key) >= most then name = "" end
  redis.call("ZINCRBY", group_key, 1, name)
end

-- Removes letters from the count of a name, and what it does not have from that of "". Returns how many were counted.
local function count_out(group_key, name, letters)
  local left = tonumber(redis.call("ZINCRBY", group_key, -letters, name)) -- below 0: the name had a lower count, or none
  if left > 0 then return letters end
  redis.call("ZREM", group_key, name)
  if left == 0 or name == "" then return letters + left end
  return letters + left + count_out(group_key, "", -left)
end

-- The same for letters with this reason. An earlier version may have counted them in another group.
local function count_out_reason(reason, host, letters)
  local former, group = former_group(reason), reason_group(reason, host)
  local there = former ~= group and tonumber(redis.call("ZSCORE", key.dead_reasons, former) or 0) or 0
  local first = math.min(there, letters)
  local counted = first > 0 and count_out(key.dead_reasons, former, first) or 0
  return first < letters and counted + count_out(key.dead_reasons, group, letters - first) or counted
end

local function count_letter(reason, host)
  count_in(key.dead_reasons, MOST_REASONS, reason_group(reason, host))
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
  stored_letters = stored_letters + 1
  note_ends({ text }, FAILED)
end

-- Removes a dead letter.
local function remove_dead(id, reason, host)
  local buried = tonumber(redis.call("ZSCORE", key.buried, id) or 0)
  redis.call("HDEL", key.dead, id)
  redis.call("ZREM", key.buried, id)
  redis.call("ZREM", key.dead_by_host, index_member(host, buried, id))
  if not is_counted(buried) then return end
  count_out(key.dead_hosts, host, 1)
  ledger.counted = math.max(0, ledger.counted - count_out_reason(reason, host, 1))
end

local function increment(counts, name)
  counts[name] = (counts[name] or 0) + 1
end

-- Deletes the oldest letters, with one command per key. They count as discarded. During a recount, letters that are not counted are newer
-- than all that are: when they are dropped, no count is left that could get too low.
local function drop_oldest(letters)
  local oldest, ids = redis.call("ZRANGE", key.buried, 0, letters - 1, "WITHSCORES"), {}
  for i = 1, #oldest, 2 do ids[#ids + 1] = oldest[i] end
  local texts, members, reasons, hosts = redis.call("HMGET", key.dead, unpack(ids)), {}, {}, {}
  for i, id in ipairs(ids) do
    local reason, host = string.match(texts[i] or "", "^([^\n]*)\n[^\n]*\n([^\n]*)\n")
    if reason then
      members[#members + 1] = index_member(host, tonumber(oldest[i * 2]), id)
      reasons[host] = reasons[host] or {}
      increment(reasons[host], reason)
      increment(hosts, host)
    end
  end
  redis.call("HDEL", key.dead, unpack(ids))
  redis.call("ZREMRANGEBYRANK", key.buried, 0, #ids - 1)
  if #members > 0 then redis.call("ZREM", key.dead_by_host, unpack(members)) end
  for host, count in pairs(hosts) do count_out(key.dead_hosts, host, count) end
  for host, counts in pairs(reasons) do
    for reason, count in pairs(counts) do
      ledger.counted = math.max(0, ledger.counted - count_out_reason(reason, host, count))
    end
  end
  ledger.discarded, ledger.dead_dropped = ledger.discarded + #ids, ledger.dead_dropped + #ids
end

-- Drops the oldest letters beyond the limit of this shard, at most `most`. Returns how many were dropped, and how many are left to drop.
local function drop_excess(most)
  local excess = ledger.dead_limit and redis.call("ZCARD", key.buried) - ledger.dead_limit or 0
  local letters = math.max(0, math.min(excess, most))
  if letters > 0 then drop_oldest(letters) end
  return letters, math.max(0, excess) - letters
end

-- Must be called at the end of a call that may have stored letters. Returns how many were dropped.
local function keep_dead_limit()
  if stored_letters == 0 then return 0 end
  return (drop_excess(stored_letters + MOST_MORE))
end
