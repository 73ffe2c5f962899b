-- The seen filter `bloom`: bitmaps in layers. The first layer has room for the shard's part of the capacity. Further ones are added if it
-- is full; their error rates add up to a fifth of the configured one, so that the total stays below it, however large the filter grows.
-- A large layer is stored in blocks, and all bits of a fingerprint are in one of them. Blocks have sizes that allocators do not round up.
-- Crawls of an earlier version (schema 2) have one bitmap per layer; each has twice the size and half the error rate of the one before.
-- Needs: root, ledger.
local MAX_BITS = 4294967295
local WRAP = 281474976710656 -- 2^48
local BLOCKS_SCHEMA = 3 -- settings.py has the same
-- Primes just below 16 KiB and 1 MiB, without the header of a string; and up to which size a layer has one block, or small ones.
local SMALL_BLOCK, LARGE_BLOCK, ONE_BLOCK, SMALL_BLOCKS = 130927, 8388473, 4194304, 268435456
local FIRST_ERROR, LATER_ERROR = 0.8, 0.12 -- of the error rate: 0.12 * (1 + 1/4 + 1/9 + …) is 0.2
local LEAST_CAPACITY = 1024
local in_blocks = ledger.schema and ledger.schema >= BLOCKS_SCHEMA
local shapes = {}

-- Returns the shape of a layer of an earlier version.
local function bitmap_shape(layer)
  local capacity = ledger.bloom_capacity * 2 ^ layer
  local bits_each = -math.log(ledger.bloom_error / 2 ^ (layer + 1)) / math.log(2)
  local bits = math.ceil(capacity * bits_each / math.log(2))
  if bits > MAX_BITS then
    capacity, bits = math.floor(MAX_BITS * math.log(2) / bits_each), MAX_BITS
  end
  return { capacity = capacity, bits = bits, hashes = math.ceil(bits_each) }
end

-- Returns the shape of a layer with this capacity and error rate.
local function blocks_shape(capacity, error_rate)
  local bits_each = -math.log(error_rate) / math.log(2)
  local bits = math.ceil(capacity * bits_each / math.log(2))
  local size = bits <= ONE_BLOCK and bits or bits <= SMALL_BLOCKS and SMALL_BLOCK or LARGE_BLOCK
  return { capacity = capacity, bits = size, blocks = math.ceil(bits / size), hashes = math.ceil(bits_each) }
end

-- Returns capacity, bits, blocks and hashes of a layer (0 is the first); bits are those of a block.
local function layer_shape(layer)
  if shapes[layer] then return shapes[layer] end
  if not in_blocks then
    shapes[layer] = bitmap_shape(layer)
    return shapes[layer]
  end
  local total = 0
  for i = 0, layer do -- small ones at first: a shard may get a little more than its part
    local capacity = i == 0 and ledger.bloom_capacity or math.max(LEAST_CAPACITY, math.ceil(total * (i < 3 and 0.125 or 0.5)))
    local part = i == 0 and FIRST_ERROR or LATER_ERROR / i ^ 2
    shapes[i] = shapes[i] or blocks_shape(capacity, ledger.bloom_error * part)
    total = total + capacity
  end
  return shapes[layer]
end

-- Returns the name of the bitmap with the bits of a fingerprint.
local function name_bitmap(layer, shape, high)
  local layer_key = root .. ":bloom:" .. layer
  return shape.blocks and layer_key .. ":" .. math.floor(high * shape.blocks / 4294967296) or layer_key
end

-- Allocates a bitmap in its full size, before its first bit is set. Redis may give a growing bitmap up to twice the memory that it needs.
local function make_bitmap(bitmap_key, shape)
  local untouched = ledger.layer_count < (shape.blocks or 0) * 20 and redis.call("EXISTS", bitmap_key) == 0
  if untouched or not shape.blocks and ledger.layer_count == 0 then redis.call("SETBIT", bitmap_key, shape.bits - 1, 0) end
end

-- Reads or sets all bits of a fingerprint in a layer with one command. Returns true if all were set before.
local function all_bits(layer, fingerprint, set)
  local shape, arguments = layer_shape(layer), {}
  local high, low = string.match(fingerprint, "^(%d+):(%d+)$")
  high, low = tonumber(high), tonumber(low)
  local bitmap_key = name_bitmap(layer, shape, high)
  if set then make_bitmap(bitmap_key, shape) end
  local position, step = high * 65536 + low % 65536, low * 65536 + high % 65536
  -- With a constant step, fingerprints would share bits too often; in small blocks also if the step grows alike for all.
  local growth = shape.blocks and high % 2097152 * 2097143 + low % 2097152 * 1299709
  for i = 1, shape.hashes do
    local n = #arguments
    arguments[n + 1], arguments[n + 2], arguments[n + 3] = set and "SET" or "GET", "u1", position % shape.bits
    if set then arguments[n + 4] = 1 end
    position, step = (position + step) % WRAP, growth and (step + growth) % WRAP or step + i
  end
  for _, bit in ipairs(redis.call(set and "BITFIELD" or "BITFIELD_RO", bitmap_key, unpack(arguments))) do
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
  if all_bits(ledger.layers - 1, fingerprint, true) then return false end
  ledger.seen_count, ledger.layer_count = ledger.seen_count + 1, ledger.layer_count + 1
  if ledger.layer_count >= layer_shape(ledger.layers - 1).capacity then
    ledger.layers, ledger.layer_count = ledger.layers + 1, 0
  end
  return true
end
