#!lua flags=allow-oom
-- Store the state of a named session, or only read it. A state is stored if its writer knows the one that is stored now, or has logged
-- in after that. If there are more than `most` sessions, the one that expires first is dropped.
--
-- KEYS[1] crawl  HASH  settings of the crawl, and the pages granted to each of its shards
-- ARGV    clock, name, version, login, ttl_ms, most, state ("" only reads)
--         version is that of the state that the caller knows; login is the fencing token of the login that it began with
--
-- Returns {1 if the state was stored, version, login, state}; the state is "" if the caller knows it, or if none is stored.
local crawl, clock, name, version, login, ttl_ms, most, state =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
--- @include "clock"
--- @include "migration"
--- @include "crawl"
--- @include "allow_oom"
--- @include "whole"
local sessions_key, session_ends_key = crawl .. ":sessions", crawl .. ":session_ends"
local DROPPED_AT_ONCE = 10
local refusal = refuse_migration(crawl) or refuse_missing_crawl(crawl)
if refusal then return refusal end

local ends = tonumber(redis.call("ZSCORE", session_ends_key, name) or 0)
local line = ends > now and redis.call("HGET", sessions_key, name) or ""
local last, last_login, stored = string.match(line, "^(%d+) (%d+) (.*)$")
last, last_login, stored = last or "0", last_login or "0", stored or ""

local is_newer = tonumber(login) > tonumber(last_login)
if state == "" or not (is_newer or (login == last_login and version == last)) then
  return { 0, last, last_login, version == last and "" or stored }
end

-- The time is part of the version, so that versions also grow if a session was dropped or the server has lost its last writes.
version = whole(math.max(tonumber(last) + 1, now))
allow_oom(sessions_key)
redis.call("HSET", sessions_key, name, version .. " " .. login .. " " .. state)
redis.call("ZADD", session_ends_key, whole(now + ttl_ms), name)
local over = redis.call("ZRANGEBYSCORE", session_ends_key, "-inf", whole(now), "LIMIT", 0, DROPPED_AT_ONCE)
if redis.call("ZCARD", session_ends_key) - #over > most then
  local first = redis.call("ZRANGE", session_ends_key, #over, #over)
  over[#over + 1] = first[1]
end
if #over > 0 then
  redis.call("HDEL", sessions_key, unpack(over))
  redis.call("ZREM", session_ends_key, unpack(over))
end
return { 1, version, login, "" }
