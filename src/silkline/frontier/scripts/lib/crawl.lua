-- Checks that a crawl exists: its hash has settings from its creation until its removal.

-- Takes the key of the hash. Returns an error reply if there is no such crawl, else nil.
local function refuse_missing_crawl(crawl_key)
  if redis.call("HEXISTS", crawl_key, "settings") == 1 then return nil end
  return redis.error_reply("NOCRAWL no such crawl is stored here")
end
