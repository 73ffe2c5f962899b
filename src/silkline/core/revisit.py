"""Revisits: when a page is visited again, and what is stored of its last visit. Pure functions: time is an argument."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import msgspec
import xxhash

from silkline.core.units import parse_duration
from silkline.errors import ConfigError

SHORTEST, LONGEST = 1.0, 3_153_600_000.0
"""Seconds: the limits of an interval."""
GROWTH, SHRINKAGE = 1.5, 0.5
"""An adaptive interval becomes this multiple after a visit without, and with a change."""
MOST_FAILURES = 3
"""Failed visits in a row after which a page becomes a dead letter."""
FAILURE_GROWTH = 2.0
"""The interval becomes this multiple for each failed visit in a row."""
LONGEST_TAG = 128
"""Characters of an ETag that is stored. A longer one is ignored, because a part of it would never match."""
MOST_BYTES, MOST_WORDS = 512 * 1024, 10_000
"""How much of a page `likeness` reads."""


class Revisit(msgspec.Struct, frozen=True):
    """How often pages are visited again after they are done.

    - *every*: the interval between two visits, in seconds or as text: ``"90s"``, ``"30m"``, ``"1h"``, ``"7d"``.
    - *min*, *max*: with one of them, the interval is adaptive. It starts with *every*. After a visit without a change it grows by half, up to
      *max*; after a change it is halved, down to *min*. One that is missing is *every*.
    - *skip_unchanged*: whether the handler is not called for a page whose body is the same as at the last visit.
    - *similar*: with a number from 0 to 32, a page whose text differs from that of the last visit in at most this many of the 64 bits of
      its simhash counts as unchanged; 3 is a good start.
    - *conditional*: whether ETag and Last-Modified are sent back, so that the server can reply 304.
    """

    every: float | str
    min: float | str | None = None
    max: float | str | None = None
    skip_unchanged: bool = False
    similar: int | None = None
    conditional: bool = True

    def __post_init__(self) -> None:
        every = _seconds("every", self.every)
        least = every if self.min is None else _seconds("min", self.min)
        most = every if self.max is None else _seconds("max", self.max)
        if not least <= every <= most:
            raise ConfigError(
                f"a revisit needs min <= every <= max, got min={self.min!r}, every={self.every!r}, max={self.max!r}"
            )
        if self.similar is not None and (type(self.similar) is not int or not 0 <= self.similar <= 32):
            raise ConfigError(f"similar must be a number of bits from 0 to 32, or None, got {self.similar!r}")

    @classmethod
    def of(cls, value: Revisit | float | str | None) -> Revisit | None:
        """Return a `Revisit` made of a `Revisit` or an interval; None for None."""
        if value is None or isinstance(value, Revisit):
            return value
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return cls(value)
        raise ConfigError(
            f'revisit must be an interval such as "1h", seconds, or Revisit(every="1h"), got {value!r:.100}'
        )

    @property
    def is_adaptive(self) -> bool:
        """Whether the interval follows the changes of a page."""
        return self.min is not None or self.max is not None

    @property
    def first(self) -> float:
        """The interval after the first visit, in seconds."""
        return _seconds("every", self.every)

    def next_interval(self, before: float | None, *, changed: bool) -> float:
        """Return the interval after a visit; *before* is the one before it, None at the first visit."""
        if before is None or not self.is_adaptive:
            return self.first
        least = self.first if self.min is None else _seconds("min", self.min)
        most = self.first if self.max is None else _seconds("max", self.max)
        return min(max(before * (SHRINKAGE if changed else GROWTH), least), most)


@lru_cache(maxsize=256)
def _seconds(name: str, value: float | str) -> float:
    seconds = parse_duration(value) if isinstance(value, str) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not SHORTEST <= seconds <= LONGEST:
        raise ConfigError(
            f'{name} of a revisit must be an interval of at least a second, such as "30m", "1h" or "7d", got {value!r:.100}'
        )
    return float(seconds)


class LastVisit(msgspec.Struct, frozen=True, array_like=True):
    """What is stored of the visits of a page, with the request for the next one.

    - *interval*: seconds from the last visit to the next one. *changed*: the unix time of the visit at which its last change was found; for
      a page that has not changed, that of the first visit.
    - *failures*: failed visits in a row since the last successful one.
    - *changes*: visits at which the page had changed. *visits*: how often it was read; a reply 304 does not count.
    - *digest*: the hash of its body, or of the address to which it redirects. *likeness*: the simhash of its text; 0 if it is not used.
    - *etag*, *modified*: the ETag header, and Last-Modified as a unix time; empty and 0 if there was none.
    """

    interval: int = 0
    changed: int = 0
    failures: int = 0
    changes: int = 0
    visits: int = 1
    digest: int = 0
    modified: int = 0
    etag: str = ""
    likeness: int = 0


class Validators(NamedTuple):
    """The headers of a response that a conditional request sends back, as they are stored."""

    etag: str = ""
    modified: int = 0


def validators(etag: str | None, last_modified: str | None) -> Validators:
    """Return what is stored of two headers. What is too long, or could not be sent back as it was, is left out."""
    tag = (etag or "").strip()
    if len(tag) > LONGEST_TAG or not (tag.isascii() and tag.isprintable()) or '"' not in tag:
        tag = ""
    return Validators(tag, _unix_time((last_modified or "").strip()))


def conditional_headers(visit: LastVisit) -> dict[str, str]:
    """Return the headers with which a server may reply 304."""
    headers = {}
    if visit.etag:
        headers["If-None-Match"] = visit.etag
    if visit.modified:
        headers["If-Modified-Since"] = format_datetime(datetime.fromtimestamp(visit.modified, UTC), usegmt=True)
    return headers


def _unix_time(date: str) -> int:
    """Return the time of an HTTP date; 0 for one that cannot be written again as it was."""
    if len(date) != len("Sun, 06 Nov 1994 08:49:37 GMT"):
        return 0
    try:
        time = parsedate_to_datetime(date)
        seconds = int(time.timestamp()) if time.tzinfo else 0
        again = format_datetime(datetime.fromtimestamp(seconds, UTC), usegmt=True)
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return 0
    return seconds if again == date and 0 < seconds < 2**32 else 0


def digest_of(body: bytes) -> int:
    """Return the hash of a body that is stored."""
    digest: int = xxhash.xxh3_64_intdigest(body)
    return digest


# ── simhash ──

_TAG = re.compile(rb"<[^<>]*>")
_WORD = re.compile(rb"[\w\x80-\xff]+")
_LANES = [sum(((byte >> bit) & 1) << (32 * bit) for bit in range(8)) for byte in range(256)]
"""The bits of a byte as eight counters of 32 bits in one integer, so that one addition counts eight bits."""


def likeness(body: bytes) -> int:
    """Return the simhash of the words of a page outside of tags: bodies with almost the same words differ in few bits. 0 without words."""
    words = _WORD.findall(_TAG.sub(b" ", body[:MOST_BYTES]).lower())[:MOST_WORDS]
    counts = Counter(pairwise(words)) if len(words) > 1 else Counter((word,) for word in words)
    sums, total = [0] * 8, 0
    for pair, count in counts.items():
        weight = min(count, 8)  # what a page repeats must not outweigh all else
        total += weight
        for place, byte in enumerate(xxhash.xxh3_64_digest(b" ".join(pair))):
            sums[place] += weight * _LANES[byte]
    found = 0
    for place, lanes in enumerate(sums):
        for bit in range(8):
            if 2 * ((lanes >> (32 * bit)) & 0xFFFFFFFF) > total:
                found |= 1 << (8 * place + bit)
    return found


def is_similar(one: int, other: int, most: int) -> bool:
    """Return whether two simhashes differ in at most *most* bits."""
    return bool(one and other) and (one ^ other).bit_count() <= most
