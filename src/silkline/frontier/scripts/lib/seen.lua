-- The seen filter of this crawl, whichever it is.
-- Needs: root, ledger, whole.
--- @include "buckets"
--- @include "bloom"

-- Marks a fingerprint as seen; true when it was new. The caller may know the bucket.
local function mark_seen(fingerprint, bucket)
  if ledger.seen == "bloom" then return bloom_add(fingerprint) end
  return buckets_add(fingerprint, bucket)
end

local function was_seen(fingerprint)
  if ledger.seen == "bloom" then return bloom_has(fingerprint) end
  return buckets_have(fingerprint)
end
