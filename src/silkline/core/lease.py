"""Lease, Admission, State: the frontier's answers as values."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from silkline.core.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterable


class State(StrEnum):
    """Where a request stands."""

    READY = "ready"
    DELAYED = "delayed"
    LEASED = "leased"
    DONE = "done"
    DEAD = "dead"


class Admission(StrEnum):
    """What the frontier did with a request it was offered."""

    ADDED = "added"
    SEEN = "seen"
    FULL = "full"
    REFUSED = "refused"


class Refusal(NamedTuple):
    """A request that was refused, by its position in the batch, and why."""

    position: int
    request: object
    reason: str


class Admissions(list[Admission]):
    """One `Admission` per request offered, in order; `refusals` tells why some were refused.

    If they are *spilled*, those that are FULL wait on disk, and come in by themselves when there is room.
    """

    def __init__(self, answers: Iterable[Admission] = (), refusals: Iterable[Refusal] = ()) -> None:
        super().__init__(answers)
        self.refusals: list[Refusal] = list(refusals)
        self.spilled = False

    def tally(self) -> Counter[Admission]:
        return Counter(self)


class Trial(NamedTuple):
    """One failed attempt in a request's history."""

    time: float
    reason: str
    status: int | None = None
    detail: str = ""
    """More than a line, such as a traceback; kept of the last attempt only."""


class Lease(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The right to work on one request until *expires*.

    Only the holder of the token can complete, retry, release or bury the request, so a worker
    that was away too long cannot overwrite the work of its successor. Tokens of a shard only grow.
    """

    request: Request
    shard: int
    token: int
    host: str
    attempt: int
    crashes: int = 0
    first: float
    """Unix time of the first attempt."""
    expires: float
    """Unix time, on the server's clock, at which the lease may be rescued."""
    history: tuple[Trial, ...] = ()

    @property
    def url(self) -> str:
        return self.request.url

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lease) and (self.shard, self.token) == (other.shard, other.token)

    def __hash__(self) -> int:
        return hash((self.shard, self.token))
