#!lua flags=allow-oom
-- Change counters in a hash of the user: add to them, keep their maximum or minimum, set them, or delete all.
--
-- KEYS[1] numbers  HASH  name -> number or text
-- ARGV    slot, call, root of Silkline's keys for it, verb (add, most, least, set or clear), name, value…
--
-- Returns "counted".
local numbers, slot, call, root = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "idempotency"
--- @include "migration"
--- @include "allow_oom"
local refusal = refuse_migration(root)
if refusal then return refusal end

local function add(name, value)
  local sum = redis.pcall("HINCRBYFLOAT", numbers, name, value)
  if type(sum) == "table" then redis.call("HSET", numbers, name, value) end -- the stored value is not a number
end

local function set_if(name, value, better)
  local stored = tonumber(redis.call("HGET", numbers, name) or nil)
  if not stored or better(tonumber(value), stored) then redis.call("HSET", numbers, name, value) end
end

local verbs = {
  add = add,
  most = function(name, value) set_if(name, value, function(a, b) return a > b end) end,
  least = function(name, value) set_if(name, value, function(a, b) return a < b end) end,
  set = function(name, value) redis.call("HSET", numbers, name, value) end,
  clear = function() redis.call("UNLINK", numbers) end,
}

if replay() then return "counted" end
allow_oom(numbers)
for i = 4, #ARGV, 3 do verbs[ARGV[i]](ARGV[i + 1], ARGV[i + 2]) end
remember("counted")
return "counted"
