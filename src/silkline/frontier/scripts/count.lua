#!lua flags=allow-oom
-- Add to the numbers in a hash of the user's own, raise or lower them, or write them anew.
--
-- KEYS[1] numbers  HASH  name -> number or text
-- ARGV    slot, call, root of the keys beside it, then threes: verb (add, most, least, set or clear), name, value
--
-- Returns "counted".
local numbers, slot, call, root = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "once"

local function add(name, value)
  local sum = redis.pcall("HINCRBYFLOAT", numbers, name, value)
  if type(sum) == "table" then redis.call("HSET", numbers, name, value) end -- what was there is no number
end

local function keep(name, value, better)
  local known = tonumber(redis.call("HGET", numbers, name) or nil)
  if not known or better(tonumber(value), known) then redis.call("HSET", numbers, name, value) end
end

local verbs = {
  add = add,
  most = function(name, value) keep(name, value, function(a, b) return a > b end) end,
  least = function(name, value) keep(name, value, function(a, b) return a < b end) end,
  set = function(name, value) redis.call("HSET", numbers, name, value) end,
  clear = function() redis.call("UNLINK", numbers) end,
}

if replay() then return "counted" end
redis.call("HDEL", numbers, "") -- a first write that frees memory lets old servers go on when memory is short
for i = 4, #ARGV, 3 do verbs[ARGV[i]](ARGV[i + 1], ARGV[i + 2]) end
remember("counted")
return "counted"
