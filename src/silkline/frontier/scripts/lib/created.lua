-- The second at which a request is accepted, in front of its record: three bytes, the first at least 64. A path loses its leading slash,
-- so that this takes two bytes more. record.py reads it.
-- Needs: ledger, now.
local TIMES = 192 * 2 ^ 16 -- record.py has the same
local created -- nil in a shard of an earlier version, which could not read it

local function set_created()
  local second = math.floor(now / 1000) % TIMES
  local low = second % 65536
  created = ledger.schema > 1 and string.char(64 + (second - low) / 65536, math.floor(low / 256), low % 256) or nil
end

-- Returns a record as it is stored, given a record without a leading slash.
local function stored_record(rest)
  if created then return created .. rest end
  local kind = string.byte(rest)
  if kind == 2 or kind == 3 then return rest end
  return kind == 1 and "\1/" .. string.sub(rest, 2) or "/" .. rest
end
