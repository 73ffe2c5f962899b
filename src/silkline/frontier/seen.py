"""What a fingerprint looks like to each seen filter, and how often a filter errs."""

from __future__ import annotations

from silkline.frontier.settings import SeenFilter

EXACT_LEAST = 10**18
EXACT_RANGE = 2**63 - EXACT_LEAST
"""Exact fingerprints are the 64-bit integers of 19 digits: their text sorts as they do."""

COMPACT_BITS = 44

_DIGITS, _LEAST, _RANGE = 10, 10**9, 8223372037  # as in lib/buckets.lua


def member(fingerprint: int, kind: str) -> str:
    """The form in which a filter's scripts take a 64-bit fingerprint. Lua's numbers hold 53 bits: no more is sent as one."""
    if kind == "exact":
        return str(EXACT_LEAST + (fingerprint * EXACT_RANGE >> 64))
    if kind == "compact":
        return str(fingerprint >> (64 - COMPACT_BITS))
    return f"{fingerprint >> 32}:{fingerprint & 0xFFFFFFFF | 1}"


def bucket_of(exact_member: str, buckets: int) -> int:
    """Where an exact fingerprint belongs when there are so many buckets; lib/buckets.lua reckons the same."""
    span = 1 << buckets.bit_length()
    bucket = span + int((int(exact_member[:_DIGITS]) - _LEAST) / _RANGE * span)
    return bucket if bucket < 2 * buckets else bucket >> 1


def expected_skips(seen: SeenFilter, count: int) -> float:
    """How many URLs the filter has wrongly taken for seen, on average, after *count* new ones."""
    if seen.kind == "exact":
        return count * count / (2.0 * EXACT_RANGE)
    if seen.kind == "compact":
        return count * count / 2.0 ** (COMPACT_BITS + 1)
    return count * seen.error
