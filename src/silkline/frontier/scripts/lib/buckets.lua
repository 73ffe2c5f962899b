-- The seen filters `exact` and `compact`: integers in SETs that are small enough for Redis to store each as an intset.
--
-- Each bucket holds one range of the fingerprints. Linear hashing: when the average size exceeds LOAD, the next bucket is split in
-- the middle of its range, so that the filter grows in small steps. Buckets are numbered like a heap: n buckets have the numbers n to
-- 2n - 1, and the next to be split is n, into 2n and 2n + 1.
--   exact    the member is the whole fingerprint: 19 digits, so that its text sorts like the number
--   compact  a fingerprint has 44 bits: the first 12 determine the bucket, the other 32 are the member
-- Needs: root, ledger, whole.
local LOAD = 200
local DIGITS, LEAST, RANGE = 10, 1000000000, 8223372037 -- the first DIGITS of an exact fingerprint, minus LEAST, are below RANGE
local HALF, REST = 2147483648, 4294967296 -- 2^31 and 2^32
local seen_prefix = root .. ":seen:"
local string_sub, string_format = string.sub, string.format
local span -- the largest power of two that is not above the number of buckets

local function bucket_key(bucket)
  return seen_prefix .. string_format("%d", bucket)
end

local function measure_span()
  span = 1
  while span * 2 <= ledger.buckets do span = span * 2 end
end

-- Returns the key of the bucket of a fingerprint, and its member. This function is called most often, so it is written for speed:
-- arithmetic converts digits faster than tonumber, and x - x % 1 is faster than math.floor.
local function locate_member(fingerprint)
  if not span then measure_span() end
  local share, member
  if ledger.seen == "exact" then
    share, member = (string_sub(fingerprint, 1, DIGITS) - LEAST) / RANGE, fingerprint
  else
    share, member = fingerprint / (REST * 4096), string_format("%d", fingerprint % REST - HALF)
  end
  local bucket = share * span * 2
  bucket = bucket - bucket % 1 + span * 2
  if bucket >= ledger.buckets * 2 then bucket = (bucket - bucket % 2) / 2 end
  return seen_prefix .. string_format("%d", bucket), member
end

-- Returns the lowest member of the upper half if a range is split at this share.
local function pivot_at(share)
  if ledger.seen == "compact" then return (share * REST * 4096) % REST - HALF end
  local digits = math.floor(share * RANGE)
  while digits / RANGE < share do digits = digits + 1 end
  while (digits - 1) / RANGE >= share do digits = digits - 1 end
  return whole(digits + LEAST)
end

local function members_from(pivot, members)
  local chosen, n, compact = {}, 0, ledger.seen == "compact"
  for i = 1, #members do
    local member = members[i]
    if compact and member + 0 >= pivot or not compact and member >= pivot then
      n = n + 1
      chosen[n] = member
    end
  end
  return chosen
end

-- A client that knows the number of buckets from an earlier reply computes the bucket of a fingerprint, which saves time here. It is
-- correct unless that bucket was split since.
local TRUST = 64
local split_since -- nil: do not use the buckets of the client

local function trust_buckets(known)
  if ledger.seen ~= "exact" or known > ledger.buckets or known < ledger.buckets - TRUST then return end
  split_since = {}
  for bucket = known, ledger.buckets - 1 do split_since[string_format("%d", bucket)] = true end
end

local function split_next_bucket()
  if not span then measure_span() end
  local old = ledger.buckets
  if split_since then split_since[string_format("%d", old)] = true end
  local lower, upper = old * 2, old * 2 + 1
  if redis.call("EXISTS", bucket_key(old)) == 1 then
    redis.call("RENAME", bucket_key(old), bucket_key(lower))
    local share = (upper - span * 2) / (span * 2)
    local movers = members_from(pivot_at(share), redis.call("SMEMBERS", bucket_key(lower)))
    if #movers > 0 then
      redis.call("SREM", bucket_key(lower), unpack(movers))
      redis.call("SADD", bucket_key(upper), unpack(movers))
    end
  end
  ledger.buckets = old + 1
  if ledger.buckets == span * 2 then span = span * 2 end
end

local function buckets_add(fingerprint, bucket)
  local member_key, member
  if split_since and bucket ~= "" and not split_since[bucket] then
    member_key, member = seen_prefix .. bucket, fingerprint
  else
    member_key, member = locate_member(fingerprint)
  end
  if redis.call("SADD", member_key, member) == 0 then return false end
  local count = ledger.seen_count + 1
  ledger.seen_count = count
  if count > LOAD * ledger.buckets then split_next_bucket() end
  return true
end

local function buckets_have(fingerprint)
  local member_key, member = locate_member(fingerprint)
  return redis.call("SISMEMBER", member_key, member) == 1
end

local function buckets_forget(fingerprint)
  local member_key, member = locate_member(fingerprint)
  if redis.call("SREM", member_key, member) == 0 then return false end
  ledger.seen_count = ledger.seen_count - 1
  return true
end
