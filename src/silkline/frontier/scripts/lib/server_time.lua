-- Converts times between the shard's clock, with which they are stored, and the server's, which clients see.
-- Needs: ledger, whole.
-- Converts a time of the shard.
local function server_time(time)
  return time and ledger.ahead and whole(tonumber(time) - ledger.ahead) or time
end

-- Converts the time in a text that stands after this many lines.
local function with_server_time(text, lines)
  if not text or not ledger.ahead then return text end
  return (string.gsub(text, "^(" .. string.rep("[^\n]*\n", lines) .. ")(%d+)", function(before, time)
    return before .. (tonumber(time) > 0 and server_time(time) or time)
  end))
end

-- Converts a limit of a client (ms, or -inf and +inf) to a time of the shard.
local function shard_time(time)
  return ledger.ahead and tonumber(time) and string.find(time, "^%d") and whole(tonumber(time) + ledger.ahead) or time
end
