#!lua flags=allow-oom
-- Let leases hand over their places to others of the same host, which were leased in reserve: their pages are downloaded, and the
-- others have started instead. A lease that is no longer held hands over nothing: its place was freed when it ended.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, from, to, from, to… (tokens)
--
-- Returns the tokens that got no place, separated by spaces.
local ledger_key, clock = KEYS[1], ARGV[1]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @include "entries"
--- @include "allow_oom"
local refusal = check_ledger()
if refusal then return refusal end
local tokens, texts, changed, without = {}, {}, {}, {}
for i = 2, #ARGV do tokens[#tokens + 1] = ARGV[i] end
for i, text in ipairs(redis.call("HMGET", key.leased, unpack(tokens))) do texts[tokens[i]] = text end

local function hand_over(from, to)
  local text, other = texts[from], texts[to]
  if not text or not other or places_of(text) == 0 or places_of(other) == 1 or host_of(text) ~= host_of(other) then return false end
  texts[from], texts[to] = VACATED .. text, string.sub(other, 2)
  changed[from], changed[to] = true, true
  return true
end

for i = 1, #tokens, 2 do
  if not hand_over(tokens[i], tokens[i + 1]) then without[#without + 1] = tokens[i + 1] end
end
local updates = {}
for token in pairs(changed) do
  updates[#updates + 1] = token
  updates[#updates + 1] = texts[token]
end
if #updates > 0 then
  allow_oom(key.ledger)
  redis.call("HSET", key.leased, unpack(updates))
end
return table.concat(without, " ")
