-- Integers as text.

-- Formats an integer. Concatenation would round it to 14 digits.
local function whole(number)
  return string.format("%d", number)
end

-- Formats milliseconds that may have thousandths, as delays below a millisecond have.
local function milliseconds(number)
  return number % 1 == 0 and whole(number) or string.format("%.3f", number)
end
