-- Notes that calls of tasks have ended for which groups wait, in this shard or another: take_ended.lua hands the notes to a client.
-- A watch has the name of a call, which is its host and path, or that of a batch: the calls whose ids begin alike and end with three
-- digits, their numbers. Its value is a line for each group that waits, "group batch number", or for a batch "group batch letters", with
-- a letter for each of its calls.
-- Needs: key, ledger, now.
local DONE, FAILED, PENDING = "d", "f", "."
local any_ended = false

local function forget_watch(name)
  redis.call("HDEL", key.watches, name)
  redis.call("ZREM", key.watch_times, name)
end

-- Must be called when requests leave the frontier for good, with their entries (false ones are skipped). In a shard without watches, the
-- rest does not run, and Lua does not create its functions.
local function note_ends(texts, outcome)
  if ledger.watched <= now then return end

  -- Returns the path of a stored record, or nil: a plain record is never that of a call.
  local function path_of(record)
    local at = (string.byte(record) or 0) >= 64 and 4 or 1
    local kind = string.byte(record, at)
    if kind == 3 then return string.match(record, "^([^%z]*)%z", at + 1) end
    if kind ~= 2 then return nil end
    local size = string.match(record, "^[\128-\143]\161p()", at + 1) or string.match(record, "^\222..\161p()", at + 1)
    local first, second, third = string.byte(record, size or #record + 1, (size or #record) + 2)
    if not size or not first then return nil end
    if first >= 160 and first < 192 then return string.sub(record, size + 1, size + first - 160) end
    if first == 217 and second then return string.sub(record, size + 2, size + 1 + second) end
    if first == 218 and third then return string.sub(record, size + 3, size + 2 + second * 256 + third) end
    return nil
  end

  local batches = {} -- group and letters, by name; false for what is no batch

  local function note(line)
    redis.call("SADD", key.ended, line .. " " .. outcome)
    any_ended = true
  end

  -- Notes the end of a call of a batch, once: a call that is revived may end again.
  local function end_in_batch(name, number)
    if batches[name] == nil then
      local group, letters = string.match(redis.call("HGET", key.watches, name) or "", "^(%S+ %S+) (%S+)$")
      batches[name] = group and { group = group, letters = letters } or false
    end
    local batch = batches[name]
    if not batch or string.sub(batch.letters, number + 1, number + 1) ~= PENDING then return end
    note(batch.group .. " " .. number)
    batch.letters = string.sub(batch.letters, 1, number) .. outcome .. string.sub(batch.letters, number + 2)
    batch.changed = true
  end

  for _, text in ipairs(texts) do
    local host, at = string.match(text or "", "^\31?([^\n]*)\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n()")
    local path = host and path_of(string.sub(text, at))
    local watchers = path and redis.call("HGET", key.watches, host .. path)
    if watchers then
      forget_watch(host .. path)
      for line in string.gmatch(watchers, "[^\n]+") do note(line) end
    end
    local beginning, number = string.match(path or "", "^(/[^=]........)(%d%d%d)$")
    if number then end_in_batch(host .. beginning .. "*", tonumber(number)) end
  end
  for name, batch in pairs(batches) do
    if batch and not string.find(batch.letters, PENDING, 1, true) then
      forget_watch(name)
    elseif batch and batch.changed then
      redis.call("HSET", key.watches, name, batch.group .. " " .. batch.letters)
    end
  end
end
