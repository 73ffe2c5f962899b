-- The shard's ledger: its settings and counters, read once and written back once per call.
-- Needs: key.
local SCHEMA = 1
local SETTINGS = {
  "schema", "state", "order", "seen", "capacity", "delay", "concurrency", "burst", "strikes",
  "host_pages", "allowance", "bloom_error", "bloom_capacity", "recount", "pacing",
}
local COUNTERS = {
  "queued", "accepted", "done", "discarded", "seen_count", "buckets", "layers", "layer_count",
  "turn", "token", "moves", "full", "rescued", "duplicates", "turned_away", "late", "mark_at", "counted", "time",
}
local STATISTICS = { duplicates = true, turned_away = true, late = true, mark_at = true, time = true } -- nothing moves when they change
local ledger, entered = {}, {}

-- Reads the ledger; answers an error reply when this shard cannot be worked on, else nil.
local function read_ledger()
  local settings = redis.call("HMGET", key.ledger, unpack(SETTINGS))
  if not settings[1] then return redis.error_reply("NOCRAWL no such crawl is stored here") end
  if tonumber(settings[1]) > SCHEMA then
    return redis.error_reply("NEWERDATA the crawl was stored with schema " .. settings[1])
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
