-- A short name of a queued request, which has no id: enough to find it again near the place where it was listed.

local function digest(item)
  return string.sub(redis.sha1hex(item), 1, 16)
end
