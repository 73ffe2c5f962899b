"""Settling: verdicts are sent in batches, and each one is sent until the server has stored it.

- A call to a server or a sink that is unreachable is repeated until it is reachable. An outage is logged once.
- If only some shards are unreachable, their leases wait apart, while all others are settled.
- If a verdict cannot be stored, the batch is halved until that verdict is found. Its request is buried, with the reason.
- Links that the frontier has accepted recently are not sent again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from silkline.core.error_text import message_of
from silkline.core.lease import Lease
from silkline.core.request import Request
from silkline.core.verdict import Bury, Complete, Release, RetryIn, Verdict
from silkline.errors import (
    ConfigError,
    FrontierError,
    PartlyUnavailable,
    SilklineError,
    SinkUnavailable,
    StoreUnavailable,
)
from silkline.frontier.verbs.enqueue import Admission
from silkline.frontier.verbs.history import HandlerCounts
from silkline.frontier.verbs.settle import Settlement

log = logging.getLogger(__name__)

# ── retrying ──

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds between two calls, by default."""


async def retry_until_reachable(
    call: Callable[[], Awaitable[T]],
    failed: Callable[[SilklineError], None],
    *,
    first: float = FIRST_PAUSE,
    longest: float = LONGEST_PAUSE,
) -> T:
    """Repeat *call* until it raises neither `StoreUnavailable` nor `SinkUnavailable`, and return its result.

    *failed* is called with each such error, and may raise one to give up. The pause between two calls starts with *first*
    seconds and doubles up to *longest*.
    """
    pause = first
    while True:
        try:
            return await call()
        except (StoreUnavailable, SinkUnavailable) as error:
            failed(error)
        await asyncio.sleep(pause)
        pause = min(pause * 2, longest)


class Retrier:
    """Repeats calls of a frontier until the server is reachable.

    All parts of a process share one, so that an outage is logged once, and its end once.
    """

    def __init__(self) -> None:
        self.trouble: str | None = None
        """The last error, while the server is unreachable."""

    async def retry(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat *call* until it no longer raises `StoreUnavailable`, and return its result."""
        result = await retry_until_reachable(call, self._failed)
        if self.trouble is not None:
            log.warning("the server is reachable again; the crawl continues")
            self.trouble = None
        return result

    def _failed(self, error: SilklineError) -> None:
        if not isinstance(error, StoreUnavailable):
            raise error
        if self.trouble is None:
            log.warning("the server is unreachable: %s. The crawl waits for it; nothing is lost", error)
        self.trouble = str(error)


# ── settling ──

MOST_AT_ONCE = 500
FIRST_PAUSE_ASIDE, LONGEST_PAUSE_ASIDE = 0.2, 2.0
"""Seconds between two attempts to settle leases whose shards are unreachable."""
FEW = 16
"""Leases that are retried first: if none of them can be settled, most likely none of the others can be either."""
MOST_ASIDE, MOST_ASIDE_LINKS = 1_000, 100_000
"""Leases whose shards are unreachable, and their links, that a process may keep besides its other unsettled leases."""
UNSETTLED, UNSETTLED_AFTER = "the result of the page could not be stored", 60.0
"""The reason of a request that is buried because its own verdict cannot be stored. If that cannot be stored either, the request
is released, and may be claimed again after UNSETTLED_AFTER seconds."""

DROPPED = (
    "the crawl %r has more dead letters than it keeps: from now on, the oldest are dropped. To keep more of them, raise %s "
    "(0 keeps all); to retry or delete some, see: silkline dead ls %s"
)

Ending = tuple[Lease, Verdict]
Endings = Sequence[Ending]
Send = Callable[[], Awaitable[Settlement]]


class SettleCounts(Protocol):
    """The counters of a process that settlements change."""

    lost: int
    ended: int
    retried: int
    buried: int


def count_endings(
    counts: SettleCounts,
    endings: Endings,
    settlement: Settlement,
    unreached: Collection[Lease] = (),
    handler_of: Callable[[Lease], HandlerCounts] | None = None,
) -> None:
    """Add a batch to *counts*, and failures to those of their handler.

    Leases that were lost or put back have not ended, nor have *unreached* ones.
    """
    lost, postponed = set(settlement.lost), set(settlement.postponed)
    counts.lost += len(lost)
    for lease, verdict in endings:
        if lease not in lost and lease not in unreached:
            counts.retried += isinstance(verdict, RetryIn)
            counts.buried += isinstance(verdict, Bury)
            counts.ended += isinstance(verdict, Bury | Complete) and lease not in postponed
            if handler_of and isinstance(verdict, Bury | RetryIn):
                by_handler = handler_of(lease)
                by_handler.failures += 1
                by_handler.dead += isinstance(verdict, Bury)


class DeadLimitWarning:
    """Logs once that dead letters of a crawl are dropped. *setting* is the name of the limit for the user."""

    def __init__(self, crawl: str, setting: str) -> None:
        self._crawl = crawl
        self._setting = setting
        self._logged = False

    def note(self, settlement: Settlement) -> None:
        if settlement.dropped_letters and not self._logged:
            self._logged = True
            log.warning(DROPPED, self._crawl, self._setting, self._crawl)


class BatchSettler:
    """Settles batches of leases, and has each batch stored before `settle` returns, except leases of unreachable shards.

    *settle* is that of the frontier. *retry* repeats a call until the server is reachable; it may let `PartlyUnavailable` pass,
    and then leases of unreachable shards wait apart. *prepare* returns the verdict as it is sent, and is called again at each
    attempt. *settled* gets each batch with the reply and its unreached leases, *ended* all leases that have ended; it is called
    without any when leases are put apart and when no lease waits any longer.
    """

    def __init__(
        self,
        settle: Callable[[Endings], Awaitable[Settlement]],
        retry: Callable[[Send], Awaitable[Settlement]],
        *,
        settled: Callable[[Endings, Settlement, Collection[Lease]], None],
        ended: Callable[[Sequence[Lease]], None],
        prepare: Callable[[Verdict], Verdict] = lambda verdict: verdict,
    ) -> None:
        self._send = settle
        self._retry = retry
        self._settled = settled
        self._ended = ended
        self._prepare = prepare
        self._held: list[Ending] = []
        self._aside: dict[Lease, int] = {}
        self._retrying: asyncio.Task[None] | None = None
        self.partly: str | None = None
        """Why some leases cannot be settled though others can: a node of a cluster is down."""

    @property
    def aside(self) -> int:
        """How many leases wait for unreachable shards; 0 if they have too many links to keep more of them."""
        if sum(self._aside.values()) > MOST_ASIDE_LINKS:
            return 0
        return min(len(self._aside), MOST_ASIDE)

    @property
    def busy(self) -> bool:
        """Whether leases wait for unreachable shards."""
        return bool(self._held) or self._retrying is not None

    def check(self) -> None:
        """Raise the error with which settling the waiting leases has ended, if it has."""
        if self._retrying and self._retrying.done():
            done, self._retrying = self._retrying, None
            done.result()

    def close(self) -> None:
        """Give up the leases that still wait."""
        if self._retrying:
            self._retrying.cancel()

    async def settle(self, endings: Endings) -> None:
        """Settle a batch. Raises `ConfigError` and `FrontierError`, which concern the whole crawl."""
        sent: Endings = ()

        async def send() -> Settlement:
            nonlocal sent
            sent = [(lease, self._prepare(verdict)) for lease, verdict in endings]
            return await self._send(sent)

        try:
            settlement = await self._retry(send)
        except PartlyUnavailable as error:
            self._put_aside(endings, sent, error)
            return
        except (ConfigError, FrontierError):
            raise
        except Exception as error:  # noqa: BLE001 - one verdict must not block the others, whatever is wrong with it
            await self._settle_apart(endings, error)
            return
        self._settled(sent, settlement, ())
        self._end([lease for lease, _ in endings])

    async def _settle_apart(self, endings: Endings, error: Exception) -> None:
        """Halve a batch that cannot be stored. A single lease ends with another verdict."""
        if len(endings) > 1:
            half = len(endings) // 2
            await self.settle(endings[:half])
            await self.settle(endings[half:])
            return
        lease, verdict = endings[0]
        log.error("%s could not be settled: %s: %s", lease.url, type(error).__name__, message_of(error))
        if instead := _instead(verdict, error):
            await self.settle([(lease, instead)])
        else:
            self._end([lease])  # the lease expires, and another worker claims the request

    def _put_aside(self, endings: Endings, sent: Endings, error: PartlyUnavailable) -> None:
        """Keep the leases of unreachable shards, and those with a link to one, until they can be settled."""
        unreached = set(error.leases)
        self._settled(sent, error.result, unreached)
        self._end([lease for lease, _ in endings if lease not in unreached])
        held = [ending for ending in endings if ending[0] in unreached]
        if self.partly is None:
            log.warning(
                "pages of some shards cannot be settled: %s. They wait, the others continue; nothing is lost", error
            )
        self.partly = str(error)
        self._held += held
        self._aside |= {lease: _links(verdict) for lease, verdict in held}
        self._ended(())
        if self._retrying is None:
            self._retrying = asyncio.create_task(self._settle_held())
            self._retrying.add_done_callback(lambda _: self._ended(()))

    async def _settle_held(self) -> None:
        """Settle the leases that were put aside, until none is left."""
        pause, size = FIRST_PAUSE_ASIDE, FEW
        while self._held:
            await asyncio.sleep(pause)
            batch, self._held = self._held[:size], self._held[size:]
            await self.settle(batch)
            if all(lease in self._aside for lease, _ in batch):
                pause, size = min(pause * 2, LONGEST_PAUSE_ASIDE), FEW
            else:
                pause, size = FIRST_PAUSE_ASIDE, MOST_AT_ONCE
        log.warning("pages of all shards can be settled again; the error was: %s", self.partly)
        self.partly = None

    def _end(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            self._aside.pop(lease, None)
        self._ended(leases)


def _instead(verdict: Verdict, error: Exception) -> Verdict | None:
    """The verdict on a request whose own cannot be stored: it is buried or, if that was the verdict, released."""
    if isinstance(verdict, Release):
        return None
    if isinstance(verdict, Bury) and verdict.reason.startswith(UNSETTLED):
        return Release(UNSETTLED_AFTER)
    return Bury(f"{UNSETTLED}: {type(error).__name__}: {message_of(error)}")


def _links(verdict: Verdict) -> int:
    return len(verdict.links) if isinstance(verdict, Complete) else 0


# ── links that were sent already ──

E = TypeVar("E", bound=Hashable)

REMEMBERED_FOR = 300.0
"""Seconds after which a `RecentSet` drops its older generation."""
MOST_KNOWN_LINKS = 20_000


class RecentSet(Generic[E]):
    """A set that is bounded and forgets its elements after a while.

    It has two generations. When the younger one has *most* elements, or after five minutes, the older one is dropped.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._young: set[E] = set()
        self._old: set[E] = set()
        self._turn = time.monotonic() + REMEMBERED_FOR

    def __contains__(self, element: object) -> bool:
        return element in self._young or element in self._old

    def add(self, element: E) -> None:
        if len(self._young) >= self._most or time.monotonic() > self._turn:
            self._old, self._young = self._young, set()
            self._turn = time.monotonic() + REMEMBERED_FOR
        self._young.add(element)

    def clear(self) -> None:
        self._young.clear()
        self._old.clear()


class KnownLinks:
    """Links that the frontier has recently accepted, so that this worker need not offer them again.

    Most links of a site are on most of its pages, so this saves the frontier most of its work. Links are forgotten after a while,
    so that a URL that was forgotten on purpose is offered again; and at once when the server may have lost writes: *losses* is
    `Frontier.losses`.
    """

    def __init__(self, losses: Callable[[], int]) -> None:
        self._urls: RecentSet[str] = RecentSet(MOST_KNOWN_LINKS)
        self._losses = losses
        self._losses_seen = losses()

    def split(self, links: Sequence[str | Request]) -> tuple[list[str | Request], list[str | Request]]:
        """Return the links that must be offered, and those that are known to be in the frontier."""
        if self._losses() != self._losses_seen:
            self.forget()
        unknown: list[str | Request] = []
        known: list[str | Request] = []
        for link in links:
            (known if _plain(link) in self._urls else unknown).append(link)
        return unknown, known

    def forget(self) -> None:
        self._losses_seen = self._losses()
        self._urls.clear()

    def note(self, links: Sequence[str | Request], admissions: Sequence[Admission]) -> None:
        """Remember the links that the frontier has accepted or knew."""
        if self._losses() != self._losses_seen:
            return
        for link, admission in zip(links, admissions, strict=False):
            if admission is Admission.ADDED or admission is Admission.SEEN:
                url = _plain(link)
                if url is not None:
                    self._urls.add(url)


def _plain(link: str | Request) -> str | None:
    """Return the URL that identifies a link; None if the URL alone does not identify it."""
    if isinstance(link, str):
        return link
    if link.dont_filter or link.method != "GET" or link.body:
        return None
    return link.url
