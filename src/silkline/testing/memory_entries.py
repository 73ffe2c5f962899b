"""What a crawl in memory keeps of its requests, wherever they are."""

from __future__ import annotations

from dataclasses import dataclass

from silkline.core.lease import Lease, Trial
from silkline.core.request import Request
from silkline.frontier import codec
from silkline.frontier.letters import DeadLetter


@dataclass(slots=True, eq=False)
class Entry:
    """A request as the crawl keeps it, and what became of it so far."""

    host: str
    member: str
    priority: int
    record: str | bytes
    attempts: int = 0
    crashes: int = 0
    first: int = 0

    def wipe(self) -> None:
        """A clean slate."""
        self.attempts = self.crashes = self.first = 0


@dataclass(slots=True)
class Held:
    """An entry under lease, or one that is delayed, until a time."""

    until: int
    token: int
    entry: Entry
    places: int = 1
    """How many places of its host it holds while it is leased."""


@dataclass(slots=True)
class Letter:
    """A dead letter."""

    buried: int
    token: int
    entry: Entry
    reason: str
    status: int | None


@dataclass(slots=True)
class KeptRobots:
    """A robots.txt: until when it is fresh, and until when somebody fetches it anew."""

    fresh: int = 0
    locked: int = 0
    text: bytes | None = None
    token: int | None = None
    """Of the lease with which somebody fetches it."""


def read_record(entry: Entry) -> tuple[Request, tuple[Trial, ...]]:
    record = entry.record.encode() if isinstance(entry.record, str) else entry.record
    return codec.decode(record, entry.host, entry.priority)


def read_lease(entry: Entry, token: int, until: int) -> Lease:
    request, history = read_record(entry)
    return Lease(
        request=request,
        shard=0,
        token=token,
        host=entry.host,
        attempt=entry.attempts,
        crashes=entry.crashes,
        first=entry.first / 1000,
        expires=until / 1000,
        history=history,
    )


def read_letter(letter: Letter) -> DeadLetter:
    request, history = read_record(letter.entry)
    return DeadLetter(
        id=f"0-{letter.token}",
        request=request,
        reason=letter.reason,
        status=letter.status,
        attempts=letter.entry.attempts,
        crashes=letter.entry.crashes,
        first=letter.entry.first / 1000,
        last=letter.buried / 1000,
        history=history,
        host=letter.entry.host,
    )
