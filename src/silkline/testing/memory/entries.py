"""How a crawl in memory stores requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from msgspec.structs import replace

from silkline.core.lease import FailedAttempt, Lease
from silkline.core.request import Request
from silkline.frontier.admin_verbs.dead_letters import DeadLetter
from silkline.frontier.store import record as codec


@dataclass(slots=True, eq=False)
class MemoryEntry:
    """A stored request and its attempts so far."""

    host: str
    member: str
    priority: int
    record: bytes
    attempts: int = 0
    crashes: int = 0
    """The number of strikes."""
    first: int = 0
    suspect: bool = False
    begun: bool = False
    """Whether a worker has started to process this suspect."""

    def afresh(self) -> MemoryEntry:
        """Return a copy with zero attempts and strikes. Strikes withdrawn later apply to the original."""
        return MemoryEntry(self.host, self.member, self.priority, self.record)


@dataclass(slots=True)
class Held:
    """A leased or delayed entry, and until when."""

    until: int
    token: int
    entry: MemoryEntry
    places: int = 1
    """Number of slots of its host that it occupies while it is leased."""


@dataclass(slots=True)
class Letter:
    """A dead letter."""

    buried: int
    token: int
    entry: MemoryEntry
    reason: str
    status: int | None


@dataclass(slots=True)
class KeptRobots:
    """A robots.txt: until when it is fresh, and until when a worker may fetch it."""

    fresh: int = 0
    locked: int = 0
    text: bytes | None = None
    token: str | None = None
    """Token of the lease of the worker that fetches it."""
    reason: str = ""
    """Why the text is missing."""


@dataclass(slots=True)
class StoredPlace:
    """What one holder has."""

    token: int
    ttl: int
    expires: int


@dataclass(slots=True)
class Permits:
    """The permits of a rate limiter that are in use, as an exact number, at a time."""

    used: Fraction
    at: int


@dataclass(slots=True)
class StoredLocks:
    """The locks of one crawl."""

    places: dict[str, dict[str, StoredPlace]] = field(default_factory=dict)
    permits: dict[str, Permits] = field(default_factory=dict)
    token: int = 0


@dataclass(slots=True)
class StoredResult:
    """The result of a completed request, as JSON, with its times in milliseconds."""

    completed: int
    expires: int
    value: bytes

    @property
    def size(self) -> int:
        """The bytes that count against the limit; results.lua computes the same."""
        return len(f"{self.completed}\n{self.expires}\n") + len(self.value) + 120


def read_record(entry: MemoryEntry, near: int) -> tuple[Request, tuple[FailedAttempt, ...], float | None]:
    """Return the request, its failed attempts and when it was enqueued. *near* is a time in milliseconds not long after that."""
    return codec.decode_stored(entry.record, entry.host, entry.priority, near / 1000)


def read_lease(entry: MemoryEntry, token: int, until: int, ahead: int = 0, near: int | None = None) -> Lease:
    request, history, created = read_record(entry, until if near is None else near)
    return Lease(
        request=request,
        shard=0,
        wire_token=str(token),
        host=entry.host,
        attempt=entry.attempts,
        crashes=entry.crashes,
        suspect=entry.suspect,
        first=entry.first / 1000,
        expires=until / 1000,
        ahead=ahead / 1000,
        history=history,
        created=created,
    )


def shown_lease(held: Held, shift: int, now: int) -> Lease:
    """With times of the server's clock, which are this many milliseconds earlier than those of the crawl's."""
    first = held.entry.first and held.entry.first - shift
    return replace(read_lease(held.entry, held.token, held.until - shift, near=now), first=first / 1000)


def read_letter(letter: Letter, shift: int) -> DeadLetter:
    """With times of the server's clock, which are this many milliseconds earlier than those of the crawl's."""
    first = letter.entry.first and letter.entry.first - shift
    request, history, created = read_record(letter.entry, letter.buried - shift)
    return DeadLetter(
        id=f"0-{letter.token}",
        request=request,
        reason=letter.reason,
        status=letter.status,
        attempts=letter.entry.attempts,
        crashes=letter.entry.crashes,
        first=first / 1000,
        last=(letter.buried - shift) / 1000,
        history=history,
        host=letter.entry.host,
        created=created,
    )
