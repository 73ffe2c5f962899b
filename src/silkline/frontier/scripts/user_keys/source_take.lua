#!lua flags=allow-oom
-- Move a batch from the queue of another program to a key next to it, where it stays until it is done. If a caller died before its
-- batch was done, return that batch first.
--
-- KEYS[1] queue  -  LIST (from the right) or ZSET (the lowest score first)
-- ARGV    done: name of the batch that is done ("" for none), name for a new batch, most, positions…
--         positions, from 1, are those of members of the done batch that were refused: they are moved to another list
--
-- Returns {name of the batch, member, score or "", member, …}, or an empty list if the queue is empty.
local queue, done, name, most = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
--- @include "migration"
local refusal = refuse_migration(queue)
if refusal then return refusal end
local aside_key, refused_key = queue .. ":silkline", queue .. ":silkline:refused"

local function finish_batch()
  for i = 4, #ARGV do
    redis.call("RPUSH", refused_key, redis.call("LINDEX", aside_key, ARGV[i] * 2 - 1))
  end
  redis.call("UNLINK", aside_key)
end

local function take_list()
  local members = redis.call("LRANGE", queue, -most, -1)
  redis.call("LTRIM", queue, 0, -most - 1)
  local batch = { name }
  for i = #members, 1, -1 do
    batch[#batch + 1] = members[i]
    batch[#batch + 1] = ""
  end
  return batch
end

local function take_sorted()
  local members = redis.call("ZRANGE", queue, 0, most - 1, "WITHSCORES")
  redis.call("ZREMRANGEBYRANK", queue, 0, most - 1)
  return { name, unpack(members) }
end

if redis.call("LINDEX", aside_key, 0) == done then finish_batch() end
local batch = redis.call("LRANGE", aside_key, 0, -1)
if #batch > 0 then return batch end
local found = redis.call("TYPE", queue).ok
if found == "list" then batch = take_list() elseif found == "zset" then batch = take_sorted() end
if #batch > 0 then redis.call("RPUSH", aside_key, unpack(batch)) end
return batch
