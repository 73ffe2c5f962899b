"""What a fingerprint looks like to each seen filter, and how often a filter errs."""

from __future__ import annotations

from silkline.frontier.settings import SeenFilter

COMPACT_BITS = 44
_COMPACT_MASK = (1 << COMPACT_BITS) - 1
_HALF = 1 << 32


def member(fingerprint: int, kind: str) -> str:
    """The form in which a filter's scripts take a fingerprint; Lua's numbers hold 53 bits, so no more is sent as one."""
    if kind == "exact":
        return str(fingerprint)
    if kind == "compact":
        return str(fingerprint & _COMPACT_MASK)
    high, low = divmod(fingerprint & ((1 << 64) - 1), _HALF)
    return f"{high}:{low | 1}"


def expected_skips(seen: SeenFilter, count: int) -> float:
    """How many URLs the filter has wrongly taken for seen, on average, after *count* new ones."""
    if seen.kind == "exact":
        return count * count / 2.0**65
    if seen.kind == "compact":
        return count * count / 2.0 ** (COMPACT_BITS + 1)
    return count * seen.error
