#!lua flags=no-writes
-- Tell what operators did, the newest act first.
--
-- KEYS[1] audit  LIST  acts of operators, the newest first
-- ARGV    most
--
-- Returns of each act four lines: ms at which it was done, by whom, what, about what.
local audit, most = KEYS[1], tonumber(ARGV[1])
return redis.call("LRANGE", audit, 0, most - 1)
