#!lua flags=allow-oom
-- Free the places of hosts whose pages are downloaded, so that other pages can be claimed while the leases continue. If pages per
-- host are limited, a place is kept until the lease ends, because only then it is known whether the page counts.
--
-- KEYS[1] ledger_key  HASH  settings and counters of the shard; all keys of the shard share its prefix
-- ARGV    clock, tokens…
--
-- Returns the tokens that are no longer held, separated by spaces.
local ledger_key, clock = KEYS[1], ARGV[1]
--- @include "shard_clock"
--- @include "keys"
--- @include "ledger"
--- @nest
--- @include "hosts"
--- @include "entries"
--- @include "allow_oom"
local refusal = check_ledger()
if refusal then return refusal end
local tokens, lost, vacated, done, order, places = {}, {}, {}, {}, {}, {}
for i = 2, #ARGV do tokens[#tokens + 1] = ARGV[i] end

local function vacate(token, text)
  local host = host_of(text)
  if not places[host] then
    order[#order + 1] = host
    places[host] = 0
  end
  places[host] = places[host] + 1
  done[token] = true
  vacated[#vacated + 1] = token
  vacated[#vacated + 1] = VACATED .. text
end

for i, text in ipairs(redis.call("HMGET", key.leased, unpack(tokens))) do
  if not text then
    lost[#lost + 1] = tokens[i]
  elseif places_of(text) == 1 and not done[tokens[i]] and not ledger.host_pages then
    vacate(tokens[i], text)
  end
end
if #vacated > 0 then
  allow_oom(key.ledger)
  redis.call("HSET", key.leased, unpack(vacated))
  read_standings(order)
  for _, host in ipairs(order) do unlease(host, places[host]) end
  finish()
end
return table.concat(lost, " ")
