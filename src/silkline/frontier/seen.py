"""What a fingerprint looks like to each seen filter, and how often a filter errs."""

from __future__ import annotations

from collections.abc import Callable

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


def bucket_finder(buckets: int) -> Callable[[str], str]:
    """Tells, as text, where an exact fingerprint belongs when there are so many buckets ("" when that is not known).

    lib/buckets.lua reckons the same.
    """
    if not buckets:
        return lambda _: ""
    span, end = 1 << buckets.bit_length(), 2 * buckets

    def find(member: str) -> str:
        bucket = span + int((int(member[:_DIGITS]) - _LEAST) / _RANGE * span)
        return str(bucket if bucket < end else bucket >> 1)

    return find


def expected_skips(seen: SeenFilter, count: int) -> float:
    """How many URLs the filter has wrongly taken for seen, on average, after *count* new ones."""
    if seen.kind == "exact":
        return count * count / (2.0 * EXACT_RANGE)
    if seen.kind == "compact":
        return count * count / 2.0 ** (COMPACT_BITS + 1)
    return count * seen.error
