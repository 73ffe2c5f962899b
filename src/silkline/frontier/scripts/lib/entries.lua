-- Entries: a request as it is stored outside its queue. Lines of text; the record, which may contain any bytes, is the last:
--   host, priority, attempts, doubt, time of the first attempt, record
-- The doubt is 0 until a worker is lost while holding the request. After that the request is a suspect, and the doubt is SUSPECT
-- plus its strikes, or BEGUN plus its strikes while a worker is working on it. Older versions stored only the strikes.
-- In a queue, a request without attempts is only its record. A request with attempts is TRIED, then attempts, doubt, time of the
-- first attempt and record.
-- The entry of a leased request begins with VACATED once its page is downloaded: it no longer counts as in progress on its host.
-- Needs: whole.
local TRIED, VACATED = "\30", "\31" -- claim.py has the same
local SUSPECT, BEGUN = 100, 300 -- claim.py has SUSPECT

-- Returns the number of a token. Tokens of earlier versions consist only of the number.
local function number_of(token)
  return tonumber(string.match(token, "^%d+"))
end

-- Returns the part of an entry between its host and its record.
local function between(priority, attempts, doubt, first)
  return "\n" .. priority .. "\n" .. attempts .. "\n" .. doubt .. "\n" .. whole(first) .. "\n"
end

local function entry(host, priority, attempts, doubt, first, record)
  return host .. between(priority, attempts, doubt, first) .. record
end

-- Returns host, priority, attempts, doubt, first, record.
local function read_entry(text)
  local host, priority, attempts, doubt, first, at =
    string.match(text, "^\31?([^\n]*)\n(%-?%d+)\n(%d+)\n(%d+)\n(%d+)\n()")
  return host, tonumber(priority), tonumber(attempts), tonumber(doubt), tonumber(first), string.sub(text, at)
end

-- Returns how often the request crashed its worker.
local function strikes_of(doubt)
  return doubt % SUSPECT
end

-- Returns the doubt of a request that no worker is working on any more.
local function not_begun(doubt)
  return doubt > 0 and SUSPECT + strikes_of(doubt) or 0
end

-- Returns whether a worker was lost while holding this request.
local function is_suspect(text)
  return string.match(text, "^\31?[^\n]*\n%-?%d+\n%d+\n0\n") == nil
end

-- Returns the entry with its doubt replaced by change(doubt).
local function with_doubt(text, change)
  local before, doubt, after = string.match(text, "^(\31?[^\n]*\n%-?%d+\n%d+\n)(%d+)(\n.*)$")
  return before .. change(tonumber(doubt)) .. after
end

-- Returns how many places of its host a leased request holds: 1, or 0 once it is vacated.
local function places_of(text)
  return string.byte(text) == 31 and 0 or 1
end

local function host_of(text)
  return string.match(text, "^\31?([^\n]*)")
end

-- Returns a request as it is stored in its queue.
local function queued_form(attempts, doubt, first, record)
  if attempts == 0 and doubt == 0 then return record end
  return TRIED .. attempts .. "\n" .. doubt .. "\n" .. whole(first) .. "\n" .. record
end

local function is_untried(item)
  return string.byte(item) ~= 30
end

-- Returns attempts, doubt, first and record of a queued request with attempts.
local function read_queued(item)
  local attempts, doubt, first, at = string.match(item, "^\30(%d+)\n(%d+)\n(%d+)\n()")
  return tonumber(attempts), tonumber(doubt), tonumber(first), string.sub(item, at)
end
