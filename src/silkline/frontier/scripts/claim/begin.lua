#!lua flags=allow-oom
-- Mark suspects as begun: if such a lease expires, its request gets a strike. Other requests are not changed. Calling it twice
-- has the same effect as once.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, tokens…
--
-- Returns the tokens that are no longer held, separated by spaces.
local ledger_key, clock = KEYS[1], ARGV[1]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "entries"
--- @include "allow_oom"
local refusal = check_ledger()
if refusal then return refusal end
local tokens, lost, begun = {}, {}, {}
for i = 2, #ARGV do tokens[#tokens + 1] = ARGV[i] end

local function begin(doubt)
  return BEGUN + strikes_of(doubt)
end

for i, text in ipairs(redis.call("HMGET", key.leased, unpack(tokens))) do
  if not text then
    lost[#lost + 1] = tokens[i]
  elseif is_suspect(text) then
    begun[#begun + 1] = tokens[i]
    begun[#begun + 1] = with_doubt(text, begin)
  end
end
if #begun > 0 then
  allow_oom(key.ledger)
  redis.call("HSET", key.leased, unpack(begun))
end
return table.concat(lost, " ")
