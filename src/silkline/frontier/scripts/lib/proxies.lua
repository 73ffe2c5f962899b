-- What is known of the proxies of a crawl: a hash with a line of text for each, and a sorted set of their names by the number of their
-- last change. Two words of a line name workers, or are "-".
-- Needs: crawl, now.
local proxies_key, proxy_changes_key = crawl .. ":proxies", crawl .. ":proxy_changes"
local NUMBERS = { "failures", "rests_until", "check_until", "worked_at", "fetched", "failed", "blocked", "ms", "updated" }
local KNOWN_FOR_MS = 300000

--- @include "whole"

local function read_proxy(text)
  local proxy = { checker = "-", worker = "-", accuser = "-", why = "" }
  local numbers, checker, worker, accuser, why = string.match(text or "", "^([%d ]+);(%S+) (%S+) (%S+) (.*)$")
  local at = 0
  for number in string.gmatch(numbers or "", "%d+") do
    at = at + 1
    if NUMBERS[at] then proxy[NUMBERS[at]] = tonumber(number) end
  end
  for _, name in ipairs(NUMBERS) do proxy[name] = proxy[name] or 0 end
  if numbers then proxy.checker, proxy.worker, proxy.accuser, proxy.why = checker, worker, accuser, why end
  return proxy
end

-- Whether a proxy has replied so recently that it can be used without another check.
local function is_known_to_work(proxy)
  return proxy.rests_until <= now and proxy.worked_at > now - KNOWN_FOR_MS
end
