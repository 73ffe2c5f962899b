-- Lets a script run on Redis 6 when the server is out of memory, as the flag allow-oom does on later versions.

-- Must be the first write of the script. Redis 6 checks memory only before the first write, and not if that write cannot use
-- more memory. This one changes nothing.
local function allow_oom(hash_key)
  redis.call("HDEL", hash_key, "")
end
