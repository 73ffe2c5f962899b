#!lua
-- Add to what hosts answered of late, and make room: of no more than so many hosts it is kept.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, slot, call, most, then host and counts of each
-- The counts are packed: how often 2xx, 3xx, 4xx, 5xx and nothing, the last status; two bytes each.
--
-- Returns of how many hosts it is kept.
local root, clock, slot, call, most = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
--- @include "steady"
--- @include "keys"
--- @include "ledger"
--- @include "once"
--- @include "answers"
local ROUNDS = 3 -- in each some are drawn twice, and fewer go than should
local refusal = read_ledger()
if refusal then return refusal end
local answered = replay()
if answered then return answered end

local hosts = {}
for i = 5, #ARGV, 2 do hosts[#hosts + 1] = ARGV[i] end
local kept = redis.call("HMGET", key.answers, unpack(hosts))
local changes, at = {}, 5
for place, host in ipairs(hosts) do
  changes[2 * place - 1], changes[2 * place] = host, added(kept[place], ARGV[at + 1])
  at = at + 2
end
redis.call("HSET", key.answers, unpack(changes)) -- first, so that a server without memory refuses it
local count = redis.call("HLEN", key.answers)
for _ = 1, ROUNDS do
  if count <= most then break end
  forget_answers(math.min(count - most, #hosts))
  count = redis.call("HLEN", key.answers)
end
local reply = whole(count)
remember(reply)
return reply
