-- Integers as text.

-- Formats an integer. Concatenation would round it to 14 digits.
local function whole(number)
  return string.format("%d", number)
end
