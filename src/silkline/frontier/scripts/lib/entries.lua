-- Entries: what is kept of a request outside its queue. Lines of text, the record (any bytes) last:
--   host, priority, attempts, crashes, time of the first attempt, record
-- In a queue an untried request is its bare record; a tried one carries MARK and its attempts before it.
-- Under a lease it begins with VACATED once its page has landed: it holds no place of its host any more.
-- Needs: whole.
local MARK, VACATED = "\30", "\31"

-- What stands between an entry's host and its record.
local function between(priority, attempts, crashes, first)
  return "\n" .. priority .. "\n" .. attempts .. "\n" .. crashes .. "\n" .. whole(first) .. "\n"
end

local function entry(host, priority, attempts, crashes, first, record)
  return host .. between(priority, attempts, crashes, first) .. record
end

-- host, priority, attempts, crashes, first, record
local function read_entry(text)
  local host, priority, attempts, crashes, first, at =
    string.match(text, "^\31?([^\n]*)\n(%-?%d+)\n(%d+)\n(%d+)\n(%d+)\n()")
  return host, tonumber(priority), tonumber(attempts), tonumber(crashes), tonumber(first), string.sub(text, at)
end

-- How many places of its host a leased request holds.
local function places_of(text)
  return string.byte(text) == 31 and 0 or 1
end

local function host_of(text)
  return string.match(text, "^\31?([^\n]*)")
end

-- The form of a request in its queue.
local function queued_form(attempts, crashes, first, record)
  if attempts == 0 and crashes == 0 then return record end
  return MARK .. attempts .. "\n" .. crashes .. "\n" .. whole(first) .. "\n" .. record
end

local function is_untried(item)
  return string.byte(item) ~= 30
end

-- attempts, crashes, first, record of a request that was tried
local function read_queued(item)
  local attempts, crashes, first, at = string.match(item, "^\30(%d+)\n(%d+)\n(%d+)\n()")
  return tonumber(attempts), tonumber(crashes), tonumber(first), string.sub(item, at)
end
