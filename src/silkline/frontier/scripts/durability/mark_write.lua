#!lua flags=allow-oom
-- Write something. WAIT and WAITAOF wait for the last write of their connection and all earlier ones, and a call that is repeated
-- writes nothing itself.
--
-- KEYS[1] mark  STRING  nothing, for a second
-- ARGV    (none)
--
-- Returns OK.
local mark = KEYS[1]
return redis.call("SET", mark, "", "PX", 1000)
