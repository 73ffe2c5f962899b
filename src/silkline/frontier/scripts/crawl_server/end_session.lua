#!lua flags=allow-oom
-- Record that a dashboard session has ended, for all dashboards of this server, or check whether it has ended.
--
-- KEYS[1] sessions  ZSET  digest of a session that has ended -> ms until which it is stored
-- ARGV    clock, session, keep_ms ("" only checks)
--
-- Returns 1 if the session has ended, else 0.
local sessions, clock, session, keep_ms = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
--- @include "clock"
if keep_ms ~= "" then
  redis.call("ZREMRANGEBYSCORE", sessions, "-inf", now)
  redis.call("ZADD", sessions, string.format("%d", now + keep_ms), session)
end
return redis.call("ZSCORE", sessions, session) and 1 or 0
