-- The shard's ledger: checks it before a call, and writes what the call has changed.
-- Needs: key, root, ledger_key.
--- @include "migration"
--- @include "ledger_fields"
local SCHEMA, NEWEST_SCHEMA = 2, 4 -- see settings.py
local STATISTICS = { -- a change of these moves no request
  duplicates = true, turned_away = true, over_share = true, late = true, mark_at = true, time = true,
  result_bytes = true, watched = true,
}

-- Returns an error reply if this shard cannot be used, else nil.
local function check_ledger()
  local refusal = refuse_migration(root) or ledger_error
  if refusal then return refusal end
  if not ledger.schema then return redis.error_reply("NOCRAWL no such crawl is stored here") end
  if ledger.schema > NEWEST_SCHEMA then
    return redis.error_reply("NEWERDATA the crawl has schema " .. ledger.schema .. ", this Silkline reads up to " .. NEWEST_SCHEMA .. ": upgrade Silkline")
  end
  return nil
end

-- Writes what changed; `moves` counts the calls that changed anything but statistics.
local function write_ledger()
  local changes, moved = {}, 0
  for i = FIRST_COUNTER, #LEDGER_FIELDS do
    local name = LEDGER_FIELDS[i]
    if ledger[name] ~= entered[name] then
      changes[#changes + 1] = name
      changes[#changes + 1] = ledger[name]
      if not STATISTICS[name] then moved = 1 end
    end
  end
  if #changes > 0 then redis.call("HSET", key.ledger, "moves", ledger.moves + moved, unpack(changes)) end
end
