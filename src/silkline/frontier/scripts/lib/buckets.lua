-- The seen filters `exact` and `compact`: integers in SETs that stay small enough for Redis to keep each as an intset.
-- Linear hashing: one more bucket whenever the average passes LOAD, so no size has to be guessed and none jumps.
--   exact    the member is the whole 64-bit fingerprint; its last nine digits choose the bucket
--   compact  of 44 bits the low 12 choose the bucket, the other 32 are the member and choose as the filter grows
-- Needs: root, ledger.
local LOAD = 200
local HOMES = 4096
local seen_prefix = root .. ":seen:"
local span -- the largest power of two that is no more than the number of buckets

local function bucket_key(bucket)
  return seen_prefix .. whole(bucket)
end


local function measure_span()
  span = 1
  while span * 2 <= ledger.buckets do span = span * 2 end
end

local function bucket_at(address)
  if not span then measure_span() end
  local bucket = address % (span * 2)
  if bucket >= ledger.buckets then bucket = address % span end
  return bucket
end

-- The bucket and the member of a fingerprint. (Arithmetic reads digits faster than tonumber does.)
local function locate_member(fingerprint)
  if ledger.seen == "exact" then return bucket_at(string.sub(fingerprint, -9) + 0), fingerprint end
  local number = tonumber(fingerprint)
  local member = math.floor(number / HOMES) - 2147483648
  return bucket_at(number), whole(member)
end

-- Those of a bucket's members whose address modulo `modulus` is `bucket`.
local function members_for(members, bucket, modulus)
  local chosen, n, exact, sub = {}, 0, ledger.seen == "exact", string.sub
  for i = 1, #members do
    local member = members[i]
    local address = exact and sub(member, -9) or bucket % HOMES + HOMES * (member + 2147483648)
    if address % modulus == bucket then
      n = n + 1
      chosen[n] = member
    end
  end
  return chosen
end

local function split_next_bucket()
  local old, new = ledger.buckets - span, ledger.buckets
  local movers = members_for(redis.call("SMEMBERS", bucket_key(old)), new, span * 2)
  if #movers > 0 then
    redis.call("SREM", bucket_key(old), unpack(movers))
    redis.call("SADD", bucket_key(new), unpack(movers))
  end
  ledger.buckets = new + 1
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
