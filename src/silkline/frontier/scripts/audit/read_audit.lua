#!lua flags=no-writes
-- Read the audit log, newest entry first.
--
-- KEYS[1] audit  LIST  entries of the audit log, newest first
-- ARGV    most
--
-- Returns the entries, four lines each: time in ms, operator, action, object.
local audit, most = KEYS[1], tonumber(ARGV[1])
return redis.call("LRANGE", audit, 0, most - 1)
