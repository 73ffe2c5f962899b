"""What each host answered of late: counts by the first digit of the status, which workers send along with the history.

The counts fade: whenever they come to more than a thousand, all are halved. So they tell how a host is now, not how it was
last week, and they never take more room.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import msgspec

MOST_COUNTED = 1_000
"""Answers of one host that are counted in full; answers.lua has the same."""
_TOLD, _KEPT = struct.Struct("<6H"), struct.Struct("<6HI")


class Answers(msgspec.Struct, kw_only=True):
    """What a host answered of late. The order of the fields is stored."""

    status_2xx: int = 0
    status_3xx: int = 0
    status_4xx: int = 0
    status_5xx: int = 0
    failed: int = 0
    """Fetches without a status: no connection, no answer in time, cut off, too large."""
    last: int | None = None
    """Status of the last answer; None when there was none."""
    heard: float = 0.0
    """When that was told: unix time of the server."""

    @property
    def counts(self) -> list[int]:
        """Of each class, in their order."""
        return [self.status_2xx, self.status_3xx, self.status_4xx, self.status_5xx, self.failed]

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def trouble(self) -> float:
        """The part of them that was no good: 4xx, 5xx, or no answer at all."""
        return (self.status_4xx + self.status_5xx + self.failed) / self.total if self.total else 0.0

    @property
    def shares(self) -> list[tuple[str, float]]:
        """The part of each class that occurred, by its short name."""
        total = self.total
        return [(word, count / total) for word, count in zip(CLASSES.values(), self.counts, strict=True) if count]

    @property
    def mix(self) -> str:
        """All of it in a few words."""
        return " · ".join(f"{_percent(share)} {word}" for word, share in self.shares)

    def note(self, status: int | None) -> None:
        """Count one answer; None is a fetch without any."""
        kind = "failed" if status is None or not 200 <= status < 600 else f"status_{status // 100}xx"
        setattr(self, kind, getattr(self, kind) + 1)
        self.last = status

    def add(self, later: Answers) -> None:
        """Count in what came later, as the script does."""
        sums = faded(one + more for one, more in zip(self.counts, later.counts, strict=True))
        for name, count in zip(CLASSES, sums, strict=True):
            setattr(self, name, count)
        self.last, self.heard = later.last, later.heard


CLASSES = {"status_2xx": "2xx", "status_3xx": "3xx", "status_4xx": "4xx", "status_5xx": "5xx", "failed": "failed"}


def faded(counts: Iterable[int]) -> list[int]:
    """Halved until they are no more than are counted in full: the new counts for more than the old."""
    left = list(counts)
    while sum(left) > MOST_COUNTED:
        left = [count // 2 for count in left]
    return left


def _percent(share: float) -> str:
    """Nothing that occurred is told as 0 %, and nothing but all as 100 %."""
    return "<1 %" if share < 0.01 else f"{100 if share == 1 else min(99, round(share * 100))} %"


def pack(answers: Answers) -> bytes:
    """Twelve bytes, as workers send them. The last status of a failed fetch is 0."""
    return _TOLD.pack(*faded(answers.counts), min(answers.last or 0, 0xFFFF))


def unpack(kept: bytes) -> Answers | None:
    """Sixteen bytes, as they are kept; None where nothing is."""
    if len(kept) < _KEPT.size:
        return None
    *counts, last, heard = _KEPT.unpack(kept[: _KEPT.size])
    return Answers(**dict(zip(CLASSES, counts, strict=True)), last=last or None, heard=float(heard))
