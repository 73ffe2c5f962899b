-- The seen filters `exact` and `compact`: integers in SETs that stay small enough for Redis to keep each as an intset.
--
-- Each bucket holds one range of the fingerprints. Linear hashing: whenever the average passes LOAD the next bucket is
-- split at the middle of its range, so no size has to be guessed and none jumps. Buckets are numbered like a heap: with n
-- buckets they are n to 2n - 1, and the next to be split is n, into 2n and 2n + 1.
--   exact    the member is the whole fingerprint: 19 digits, so that text sorts as the numbers do
--   compact  of a fingerprint's 44 bits the first 12 are the bucket's for ever, the others are the member
-- Needs: root, ledger, whole.
local LOAD = 200
local DIGITS, LEAST, RANGE = 10, 1000000000, 8223372037 -- the first digits of an exact fingerprint, less LEAST, of RANGE
local HALF, REST = 2147483648, 4294967296 -- 2^31 and 2^32
local seen_prefix = root .. ":seen:"
local span -- the largest power of two that is no more than the number of buckets

local function bucket_key(bucket)
  return seen_prefix .. whole(bucket)
end

-- The bucket whose range holds this share (from 0 to below 1) of all fingerprints.
local function bucket_at(share)
  if not span then
    span = 1
    while span * 2 <= ledger.buckets do span = span * 2 end
  end
  local bucket = span * 2 + math.floor(share * span * 2)
  if bucket >= ledger.buckets * 2 then bucket = math.floor(bucket / 2) end
  return bucket
end

-- The bucket and the member of a fingerprint. (Arithmetic reads digits faster than tonumber does.)
local function locate_member(fingerprint)
  if ledger.seen == "exact" then
    return bucket_at((string.sub(fingerprint, 1, DIGITS) - LEAST) / RANGE), fingerprint
  end
  return bucket_at(fingerprint / (REST * 4096)), whole(fingerprint % REST - HALF)
end

-- The least member of the upper half, when a range is split at this share.
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

local function split_next_bucket()
  local old = ledger.buckets
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

local function buckets_add(fingerprint)
  local bucket, member = locate_member(fingerprint)
  if redis.call("SADD", bucket_key(bucket), member) == 0 then return false end
  ledger.seen_count = ledger.seen_count + 1
  if ledger.seen_count > LOAD * ledger.buckets then split_next_bucket() end
  return true
end

local function buckets_have(fingerprint)
  local bucket, member = locate_member(fingerprint)
  return redis.call("SISMEMBER", bucket_key(bucket), member) == 1
end

local function buckets_forget(fingerprint)
  local bucket, member = locate_member(fingerprint)
  if redis.call("SREM", bucket_key(bucket), member) == 0 then return false end
  ledger.seen_count = ledger.seen_count - 1
  return true
end
