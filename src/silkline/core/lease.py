"""Lease, its state and its failed attempts."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from silkline.core.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterable


class State(StrEnum):
    """The state of a request."""

    READY = "ready"
    DELAYED = "delayed"
    LEASED = "leased"
    DONE = "done"
    DEAD = "dead"


class FailedAttempt(NamedTuple):
    """One failed attempt in a request's history."""

    time: float
    reason: str
    status: int | None = None
    detail: str = ""
    """Several lines, such as a traceback; stored for the last attempt only."""


class Lease(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The right to work on one *request* until *expires*.

    Only the holder of the token can complete, retry, release or bury the request, so a worker
    that was away too long cannot overwrite the work of its successor.

    - *attempt*: 1 for the first attempt at the request. *history* has the failed ones, the oldest first.
    - *first*, *expires*: unix times by the crawl's clock: of the first attempt, and from which on the lease may be rescued.
    - *ahead*: seconds by which the crawl's clock is ahead of the server's, if that was set back.
    - *created*: unix time by the crawl's clock at which the request was enqueued, in whole seconds. Retries, releases and revivals keep it.
      None if an earlier version has stored the request. After 144 days in the queue, it is 145 days too late.
    - *suspect*: whether a worker was lost while holding this request, for whatever reason.
    - *reserve*: whether it was leased in reserve: it has no place of its host until a downloaded page hands over its own.
    - *crashes*: the strikes of the request: how often a worker was lost because of it.
    - *host*: the queue of the request: the host of its URL, or its download slot.
    - *shard*, *wire_token*: where the request is stored, and the token as stored there: a number and a nonce, ``1768000000000.0a1b2c3d``.
    """

    request: Request
    shard: int
    wire_token: str
    host: str
    attempt: int
    crashes: int = 0
    suspect: bool = False
    reserve: bool = False
    first: float
    expires: float
    ahead: float = 0.0
    history: tuple[FailedAttempt, ...] = ()
    created: float | None = None

    @property
    def url(self) -> str:
        """The URL of the request."""
        return self.request.url

    @property
    def token(self) -> int:
        """The number of the token. The numbers of a shard only grow."""
        return int(self.wire_token.partition(".")[0])

    @property
    def nonce(self) -> str:
        """Different for every claim, because a server that has lost writes may issue a number again.

        Empty for leases that an earlier version returned.
        """
        return self.wire_token.partition(".")[2]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Lease):
            return False
        return self.wire_token == other.wire_token and self.shard == other.shard

    def __hash__(self) -> int:
        return hash(self.wire_token)


ISOLATE_FOR = 30.0
"""Seconds that one worker gets to end its other leases (suspects.lua has the same value); then another worker may isolate the
suspect."""


class Leases(list[Lease]):
    """What a claim returns.

    With *isolate*, a request with a strike is waiting: the caller should finish the requests that it holds, and claim again
    when it holds none.
    """

    def __init__(self, leases: Iterable[Lease] = (), *, isolate: bool = False) -> None:
        super().__init__(leases)
        self.isolate = isolate
