-- Reads the shard's ledger: its settings and counters. One command reads all of them, once per call.
-- Needs: ledger_key.
local LEDGER_FIELDS = {
  "schema", "state", "order", "seen", "capacity", "delay", "concurrency", "burst", "strikes",
  "host_pages", "allowance", "bloom_error", "bloom_capacity", "recount", "pacing", "ahead", "host_share",
  "dead_limit", "set_back",
  "queued", "accepted", "done", "discarded", "seen_count", "buckets", "layers", "layer_count",
  "turn", "token", "moves", "full", "rescued", "duplicates", "turned_away", "over_share", "late", "mark_at", "counted", "time",
  "dead_dropped", "result_bytes", "watched",
}
local FIRST_COUNTER = 20 -- the fields from here on; the others are settings
local ledger, entered, ledger_error = {}, {}, nil
do
  local stored = redis.pcall("HMGET", ledger_key, unpack(LEDGER_FIELDS)) -- an error if the cluster has just moved the key
  if stored.err then ledger_error = stored end
  for i = 1, FIRST_COUNTER - 1 do
    local value = stored[i]
    if value then ledger[LEDGER_FIELDS[i]] = tonumber(value) or value end
  end
  for i = FIRST_COUNTER, #LEDGER_FIELDS do
    local name, value = LEDGER_FIELDS[i], tonumber(stored[i]) or 0
    ledger[name], entered[name] = value, value
  end
end
