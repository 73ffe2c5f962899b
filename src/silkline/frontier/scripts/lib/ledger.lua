-- The shard's ledger: its settings and counters, read once and written back once per call.
-- Needs: key, root, ledger_key.
--- @include "ledger_fields"
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
local ledger = {}

-- Returns a counter as it was at the beginning of the call.
local function stored_count(name)
  return tonumber(ledger_fields[name] or 0)
end

-- Reads the ledger. Returns an error reply if this shard cannot be used, else nil.
local function read_ledger()
  local refusal = refuse_migration(root)
  if refusal then return refusal end
  if not ledger_fields.schema then read_ledger_fields(redis.call) end
  local schema = ledger_fields.schema
  if not schema then return redis.error_reply("NOCRAWL no such crawl is stored here") end
  if tonumber(schema) > SCHEMA then
    return redis.error_reply("NEWERDATA the crawl has schema " .. schema .. ", this Silkline reads up to " .. SCHEMA .. ": upgrade Silkline")
  end
  for i = 1, #SETTINGS do
    local name = SETTINGS[i]
    local value = ledger_fields[name]
    ledger[name] = value and (tonumber(value) or value)
  end
  for i = 1, #COUNTERS do ledger[COUNTERS[i]] = stored_count(COUNTERS[i]) end
  return nil
end

-- Writes what changed; `moves` counts the calls that changed anything but statistics.
local function write_ledger()
  local changes, moved = {}, 0
  for i = 1, #COUNTERS do
    local name = COUNTERS[i]
    if ledger[name] ~= stored_count(name) then
      changes[#changes + 1] = name
      changes[#changes + 1] = ledger[name]
      if not STATISTICS[name] then moved = 1 end
    end
  end
  if #changes > 0 then redis.call("HSET", key.ledger, "moves", ledger.moves + moved, unpack(changes)) end
end
