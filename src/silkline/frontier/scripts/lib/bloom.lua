-- The seen filter `bloom`: bitmaps in layers. After a full layer comes one with twice its size and half its error rate, so the total
-- error rate stays below the configured one, however large the filter grows.
-- Needs: root, ledger.
local MAX_BITS = 4294967295
local WRAP = 281474976710656 -- 2^48
local shapes = {}

-- Returns capacity, bits and hashes of a layer (0 is the first).
local function layer_shape(layer)
  local shape = shapes[layer]
  if not shape then
    local capacity = ledger.bloom_capacity * 2 ^ layer
    local bits_each = -math.log(ledger.bloom_error / 2 ^ (layer + 1)) / math.log(2)
    local bits = math.ceil(capacity * bits_each / math.log(2))
    if bits > MAX_BITS then
      capacity, bits = math.floor(MAX_BITS * math.log(2) / bits_each), MAX_BITS
    end
    shape = { capacity = capacity, bits = bits, hashes = math.ceil(bits_each) }
    shapes[layer] = shape
  end
  return shape
end

-- Allocates a layer in its full size. Redis may give a growing bitmap up to twice the memory that it needs.
local function make_layer(layer)
  redis.call("SETBIT", root .. ":bloom:" .. layer, layer_shape(layer).bits - 1, 0)
end

-- Reads or sets all bits of a fingerprint in a layer with one command. Returns true if all were set before.
local function all_bits(layer, fingerprint, set)
  local shape, arguments = layer_shape(layer), {}
  local high, low = string.match(fingerprint, "^(%d+):(%d+)$")
  high, low = tonumber(high), tonumber(low)
  local position, step = high * 65536 + low % 65536, low * 65536 + high % 65536
  for i = 1, shape.hashes do
    local n = #arguments
    arguments[n + 1], arguments[n + 2], arguments[n + 3] = set and "SET" or "GET", "u1", position % shape.bits
    if set then arguments[n + 4] = 1 end
    position, step = (position + step) % WRAP, step + i -- with a constant step, fingerprints would share bits too often
  end
  for _, bit in ipairs(redis.call(set and "BITFIELD" or "BITFIELD_RO", root .. ":bloom:" .. layer, unpack(arguments))) do
    if bit == 0 then return false end
  end
  return true
end

local function bloom_has(fingerprint)
  for layer = ledger.layers - 1, 0, -1 do
    if all_bits(layer, fingerprint, false) then return true end
  end
  return false
end

local function bloom_add(fingerprint)
  for layer = ledger.layers - 2, 0, -1 do
    if all_bits(layer, fingerprint, false) then return false end
  end
  if ledger.layer_count == 0 then make_layer(ledger.layers - 1) end
  if all_bits(ledger.layers - 1, fingerprint, true) then return false end
  ledger.seen_count, ledger.layer_count = ledger.seen_count + 1, ledger.layer_count + 1
  if ledger.layer_count >= layer_shape(ledger.layers - 1).capacity then
    ledger.layers, ledger.layer_count = ledger.layers + 1, 0
  end
  return true
end
