-- The seen filter of the crawl, of any kind.
-- Needs: root, ledger, whole.
--- @include "buckets"
--- @include "bloom"

-- Marks a fingerprint as seen. Returns true if it was new. `bucket` is that of the client, or "".
local function mark_seen(fingerprint, bucket)
  if ledger.seen == "bloom" then return bloom_add(fingerprint) end
  return buckets_add(fingerprint, bucket)
end

local function was_seen(fingerprint)
  if ledger.seen == "bloom" then return bloom_has(fingerprint) end
  return buckets_have(fingerprint)
end
