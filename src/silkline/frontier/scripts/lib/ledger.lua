-- The shard's ledger: its settings and counters, read once and written back once per call.
-- Needs: key, root.
--- @include "migration"
local SCHEMA = 2 -- see settings.py
local SETTINGS = {
  "schema", "state", "order", "seen", "capacity", "delay", "concurrency", "burst", "strikes",
  "host_pages", "allowance", "bloom_error", "bloom_capacity", "recount", "pacing", "ahead", "host_share",
  "dead_limit",
}
local COUNTERS = {
  "queued", "accepted", "done", "discarded", "seen_count", "buckets", "layers", "layer_count",
  "turn", "token", "moves", "full", "rescued", "duplicates", "turned_away", "over_share", "late", "mark_at", "counted", "time",
  "dead_dropped", "result_bytes",
}
local STATISTICS = { -- a change of these moves no request
  duplicates = true, turned_away = true, over_share = true, late = true, mark_at = true, time = true,
  result_bytes = true,
}
local ledger, entered = {}, {}

-- Reads the ledger. Returns an error reply if this shard cannot be used, else nil.
local function read_ledger()
  local refusal = refuse_migration(root)
  if refusal then return refusal end
  local settings = redis.call("HMGET", key.ledger, unpack(SETTINGS))
  if not settings[1] then return redis.error_reply("NOCRAWL no such crawl is stored here") end
  if tonumber(settings[1]) > SCHEMA then
    return redis.error_reply("NEWERDATA the crawl has schema " .. settings[1] .. ", this Silkline reads up to " .. SCHEMA .. ": upgrade Silkline")
  end
  for i, name in ipairs(SETTINGS) do ledger[name] = tonumber(settings[i]) or settings[i] end
  local counters = redis.call("HMGET", key.ledger, unpack(COUNTERS))
  for i, name in ipairs(COUNTERS) do
    entered[name] = tonumber(counters[i]) or 0
    ledger[name] = entered[name]
  end
  return nil
end

-- Writes what changed; `moves` counts the calls that changed anything but statistics.
local function write_ledger()
  local changes, moved = {}, 0
  for _, name in ipairs(COUNTERS) do
    if ledger[name] ~= entered[name] then
      changes[#changes + 1] = name
      changes[#changes + 1] = ledger[name]
      if not STATISTICS[name] then moved = 1 end
    end
  end
  if #changes > 0 then redis.call("HSET", key.ledger, "moves", ledger.moves + moved, unpack(changes)) end
end
