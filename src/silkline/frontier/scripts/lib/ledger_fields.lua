-- The fields of the ledger as they are stored, read once per call. One HGETALL is faster than HMGET with many fields: in a small hash,
-- the server searches each field from the start.
-- Needs: ledger_key.
local ledger_fields = {}

-- Takes redis.call, or redis.pcall to read no fields if the server refuses the command.
local function read_ledger_fields(call)
  local flat = call("HGETALL", ledger_key)
  for i = 1, #flat, 2 do ledger_fields[flat[i]] = flat[i + 1] end
end
