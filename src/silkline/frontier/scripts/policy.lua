#!lua flags=allow-oom
-- Give one host a pace of its own, block it until a time, pause or resume it.
--
-- KEYS[1] root  -  prefix of the shard's keys
-- ARGV    clock, host, delay in ms, concurrency, burst, blocked until (ms), paused (1);
--         of each "" leaves it as it is and "-" returns it to the crawl's default
--
-- Returns the host's policy as it is kept: five words, "-" for a default.
local root, clock, host = KEYS[1], ARGV[1], ARGV[2]
local changes = { ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7] }
--- @include "clock"
--- @include "keys"
--- @include "ledger"
--- @include "hosts"
local refusal = read_ledger()
if refusal then return refusal end
local words = {}
for word in string.gmatch(redis.call("HGET", key.policies, host) or "- - - - -", "%S+") do words[#words + 1] = word end
for i, change in ipairs(changes) do
  if change ~= "" then words[i] = change end
end
redis.call("HDEL", key.policies, "") -- a first write that frees memory lets old servers go on when memory is short
keep_policy(host, unpack(words))
local top = top_lane(host)
if top then
  local leased, spent = standing(host)
  place(host, leased, spent, top, true)
end
write_ledger()
ring()
return table.concat(words, " ")
