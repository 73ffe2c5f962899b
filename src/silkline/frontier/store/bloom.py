"""The layers of a Bloom filter, as lib/bloom.lua makes them: to know their size in advance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

SMALL_BLOCK, LARGE_BLOCK = 130_927, 8_388_473
"""Bits of a block. Both are primes just below 16 KiB and 1 MiB."""
ONE_BLOCK, SMALL_BLOCKS = 4_194_304, 268_435_456
"""Up to how many bits a layer is one block, or small blocks."""
FIRST_ERROR, LATER_ERROR = 0.8, 0.12
"""Parts of the error rate: that of the first layer, and that of layer n divided by n²."""
LEAST_CAPACITY = 1024


class Layer(NamedTuple):
    """One layer of the filter of a shard."""

    capacity: int
    bits: int
    """Bits of each block."""
    blocks: int
    hashes: int

    @property
    def size(self) -> int:
        """The bytes of all blocks."""
        return self.blocks * -(-self.bits // 8)


def layers(capacity: int, error: float) -> Iterator[Layer]:
    """Yield the layers of a filter whose first one has room for *capacity* URLs."""
    number, total = 0, 0
    while True:
        room = capacity if number == 0 else max(LEAST_CAPACITY, math.ceil(total * (0.125 if number < 3 else 0.5)))
        yield _layer(room, error * (LATER_ERROR / number**2 if number else FIRST_ERROR))
        total, number = total + room, number + 1


def size_for(urls: int, capacity: int, error: float) -> int:
    """Return the bytes of all layers of a filter that holds some *urls*."""
    size = room = 0
    for layer in layers(capacity, error):
        size, room = size + layer.size, room + layer.capacity
        if room >= urls:
            break
    return size


def _layer(capacity: int, error: float) -> Layer:
    bits_each = -math.log2(error)
    bits = math.ceil(capacity * bits_each / math.log(2))
    size = bits if bits <= ONE_BLOCK else SMALL_BLOCK if bits <= SMALL_BLOCKS else LARGE_BLOCK
    return Layer(capacity, size, -(-bits // size), math.ceil(bits_each))
