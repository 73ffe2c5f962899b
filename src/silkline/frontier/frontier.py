"""Frontier: the crawl queue for async code. The promises are told here; the logic is in flows and scripts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar, Unpack

from silkline.core.errors import LeaseLost, SilklineError
from silkline.core.lease import Admissions, Lease
from silkline.core.lookout import Lookout
from silkline.core.request import Request
from silkline.core.robots_fetch import FRESH
from silkline.core.verdict import Bury, Complete, Release, RetryIn, Verdict
from silkline.frontier import (
    admitting,
    flows,
    inspection,
    robots,
)
from silkline.frontier.address import read_url
from silkline.frontier.bell import AsyncBell
from silkline.frontier.connection import AsyncConnection
from silkline.frontier.embedded import EmbeddedServer
from silkline.frontier.flows import Settlement
from silkline.frontier.inbox import DEFAULT_HOLD, Inbox, Kind, open_inbox
from silkline.frontier.keys import CrawlKeys
from silkline.frontier.leasing import Terms
from silkline.frontier.overflow import Overflow, open_overflow
from silkline.frontier.overseeing import Overseeing, drive
from silkline.frontier.plan import Plan
from silkline.frontier.robots_file import RobotsFile
from silkline.frontier.server import check_server
from silkline.frontier.wishes import (
    RetryWishes,
    Wishes,
    as_batch,
    claim_terms,
    crawl_defaults,
    embedded_in,
    lease_ms,
    read_wishes,
)

R = TypeVar("R")

DEFAULT_LEASE = 10.0
DEFAULT_LOCK = 60.0
"""Long enough for a slow robots.txt with its redirects. A fetcher that dies holds its host up for so long, or for its lease."""
RECALL_EVERY = 1.0


class Frontier(Overseeing):
    """One crawl's requests on Redis or Valkey.

    Open it with `Frontier.open`; every method is one atomic change of state on the server (or a few, each of them
    safe), may be called from any number of processes, and is safe to run again after a lost connection.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        plan: Plan,
        lease: float,
        overflow: Overflow | None,
        clock: Callable[[], int] | None,
    ) -> None:
        self._connection = connection
        self._plan = plan
        self._lease_ms = lease_ms(lease)
        self._overflow = overflow
        self._clock = clock
        self._lookout = Lookout(plan.settings.shards)
        self._bell = AsyncBell(connection, plan, self._lookout)
        self._next_recall = 0.0
        self._embedded: EmbeddedServer | None = None
        self.url: str | None = None
        """The address it was opened with, password and all; None for the embedded server in ``.silkline``."""

    @classmethod
    async def open(
        cls,
        url: str | None = None,
        *,
        crawl: str,
        create: bool = True,
        lease: float = DEFAULT_LEASE,
        overflow: Overflow | Path | str | None = None,
        clock: Callable[[], int] | None = None,
        **wishes: Unpack[Wishes],
    ) -> Self:
        """Connect to *crawl* on the server at *url*, creating the crawl unless *create* is False.

        Without a *url* an embedded server runs in ``.silkline/``; ``embedded:DIR`` names another directory. *lease*
        is how many seconds a claimed request stays ours unless extended. *overflow* is a SQLite file for links that
        find no room. *clock* (milliseconds) replaces the server's clock, for tests.
        """
        keys = CrawlKeys(crawl)
        lease_ms(lease)
        settings = read_wishes(wishes)
        embedded = await asyncio.to_thread(EmbeddedServer.join, directory) if (directory := embedded_in(url)) else None
        connection = None
        try:
            target = read_url(embedded.url if embedded else str(url))
            connection = AsyncConnection(target, clock, embedded.ensure if embedded else None)
            await connection.start()
            check_server(connection.server, connection.target.public)
            defaults = crawl_defaults(cluster=connection.target.kind == "cluster")
            plan = await drive(connection, flows.open_crawl(keys, settings, defaults, create=create))
            store = await asyncio.to_thread(open_overflow, overflow)
        except BaseException:
            if connection:
                await connection.close()
            if embedded:
                await asyncio.to_thread(embedded.leave)
            raise
        frontier = cls(connection, plan, lease, store, clock)
        frontier._embedded = embedded
        frontier.url = url
        return frontier

    @property
    def crawl(self) -> str:
        return self._plan.keys.crawl

    @property
    def plan(self) -> Plan:
        """The crawl's keys and settings."""
        return self._plan

    async def enqueue(self, requests: Iterable[str | Request] | str | Request, *, spill: bool = False) -> Admissions:
        """Offer requests. Each is answered on its own: ADDED, SEEN, FULL or REFUSED (see `Admissions.refusals`).

        A request that was not added is not marked as seen, so it can be offered again. With *spill*, those that are FULL
        go to the overflow, if this frontier has one (then `Admissions.spilled` is true), as the links of pages do.
        """
        return await self._run(flows.enqueue(self._plan, as_batch(requests), self._overflow if spill else None))

    async def claim(
        self, n: int = 1, *, wait: float = 0.0, lease: float | None = None, slack: float = 0.0
    ) -> list[Lease]:
        """Lease up to *n* requests whose hosts may be fetched now; best priority first, then the longest wait.

        The answer may be empty. With *wait* it comes as soon as there is a request, or after that many seconds.
        Ask only for what you can start at once: politeness counts from the claim. If it may take you up to *slack* seconds
        to begin, say so, and hosts with a delay are given that much more between two starts.
        """
        terms = claim_terms(n, wait, self._lease_ms if lease is None else lease_ms(lease), slack)
        deadline = time.monotonic() + wait
        if wait > 0:
            await self._bell.start()
        if wait == 0 or not self._bell.running:
            self._lookout.forget()  # nobody waits for the bell, so what it said may not have been heard yet
        while True:
            if self._overflow:
                await asyncio.shield(self._recall())  # a batch half brought back would be left alone for a while
            looked = time.monotonic()
            leases = await self._claim(n, terms)
            if leases or time.monotonic() >= deadline:
                self._lookout.found()
                return leases
            await self._bell.wait(looked, min(deadline, self._next_recall) if self._overflow else deadline)

    async def _claim(self, n: int, terms: Terms) -> list[Lease]:
        """One look. If the caller is cancelled meanwhile, what was claimed is given back."""
        look = asyncio.ensure_future(self._run(flows.claim(self._plan, self._lookout, n, terms, time.monotonic)))
        try:
            return await asyncio.shield(look)
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(self._give_back(look)))
            raise

    async def _give_back(self, look: asyncio.Future[list[Lease]]) -> None:
        with suppress(SilklineError):  # then they return when they expire
            await self.settle([(lease, Release()) for lease in await look])

    async def extend(self, leases: Sequence[Lease], *, lease: float | None = None) -> list[Lease]:
        """Keep leases for longer, many in one call; answers those that are lost. Nothing is raised for them."""
        if not leases:
            return []
        duration = self._lease_ms if lease is None else lease_ms(lease)
        _, lost = await self._run(flows.extend(self._plan, leases, duration))
        return lost

    async def vacate(self, leases: Sequence[Lease]) -> list[Lease]:
        """Tell that these pages have landed: their hosts may be asked for the next ones, while the leases go on.

        Until then, or until its verdict, a lease holds one of the places that its host's concurrency allows. Answers those
        that are lost. In a crawl with a budget of pages per host, places are held until the verdict.
        """
        return await self._run(flows.vacate(self._plan, leases)) if leases else []

    async def complete(self, lease: Lease, links: Sequence[str | Request] = ()) -> Settlement:
        """Finish a request; *links* found on its page are stored first."""
        return await self._settle_one(lease, Complete(links))

    async def retry(self, lease: Lease, after: float = 0.0, **how: Unpack[RetryWishes]) -> Settlement:
        """Try again *after* seconds, at the same priority.

        With ``block_host=True`` the whole host waits that long. With ``slow_host=True`` its delay doubles, to at least
        a quarter of a second and at most an hour, and decays back once the site has had the time to answer one request at that pace.
        """
        return await self._settle_one(lease, RetryIn(after, **how))

    async def release(self, lease: Lease, after: float = 0.0) -> Settlement:
        """Give a request back unused; costs no attempt."""
        return await self._settle_one(lease, Release(after))

    async def bury(self, lease: Lease, reason: str, status: int | None = None) -> Settlement:
        """Give up: the request becomes a dead letter, which can be revived."""
        return await self._settle_one(lease, Bury(reason, status))

    async def _settle_one(self, lease: Lease, verdict: Verdict) -> Settlement:
        outcome = await self.settle([(lease, verdict)])
        if outcome.lost:
            raise LeaseLost(outcome.lost)
        return outcome

    async def settle(self, verdicts: Iterable[tuple[Lease, Verdict]]) -> Settlement:
        """End many leases in one call per shard. Lost ones are told in the answer, not raised."""
        return await self._run(flows.settle(self._plan, list(verdicts), self._now, self._overflow))

    async def forget(self, requests: Iterable[str | Request] | str | Request) -> int:
        """Forget that requests were seen, so that they can be enqueued again. Answers how many had been."""
        return await self._run(inspection.forget(self._plan, as_batch(requests)))

    async def mark_seen(self, identities: Iterable[bytes]) -> None:
        """Mark requests as seen by their `Request.identity`, without enqueueing them: what another crawler has done.

        Every shard keeps all of them, because an identity alone does not tell its host.
        """
        await self._run(admitting.mark_seen(self._plan, list(identities)))

    async def robots(self, url: str, *, lock: float = DEFAULT_LOCK, lease: Lease | None = None) -> RobotsFile:
        """The robots.txt of the origin of *url*: known, being fetched by somebody, or ours to fetch.

        Of all who ask, one is told that it is theirs, and is to `keep_robots` what it fetched. If that does not happen
        within *lock* seconds, it is somebody else's; and as soon as the *lease* is lost of the page that waits for it, where
        one is told. Costs neither a page of the budget nor a claim.
        """
        return await self._run(robots.robots(self._plan, url, lock, lease))

    async def keep_robots(
        self, url: str, text: bytes | None, *, fresh: float = FRESH, crawl_delay: float | None = None
    ) -> bool:
        """Keep the robots.txt of the origin of *url* for the whole fleet, for *fresh* seconds.

        *text* is empty where there is none, and None where it could not be fetched. *crawl_delay* becomes the host's
        (see `set_host`). Answers whether the text was kept: a server that is out of memory does not, and then others
        will fetch it for themselves. With *fresh* at 0 it is given back: whoever asks next is to fetch it.
        """
        return await self._run(robots.keep_robots(self._plan, url, text, fresh, crawl_delay))

    async def inbox(self, keys: Iterable[str] | str, *, kind: Kind = "list", hold: float = DEFAULT_HOLD) -> Inbox:
        """Messages that others leave in keys of their own: lists, sets or sorted sets. The first key comes first.

        What is taken and not told to be done within *hold* seconds is taken again, so that none is lost.
        """
        return open_inbox(self._connection, keys, kind, hold)

    async def finished(self) -> bool:
        """Whether nothing is left to do, on no shard and on no disk, and nothing moved between two looks."""
        return await self._run(inspection.finished(self._plan))

    async def close(self) -> None:
        """Leave. Leases that are still held stay held until they expire."""
        await self._bell.stop()
        if self._overflow:
            await asyncio.to_thread(self._overflow.close)
        await self._connection.close()
        if self._embedded:
            await asyncio.to_thread(self._embedded.leave)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _recall(self) -> None:
        """Bring links back from the overflow, if it is time to look."""
        if self._overflow and time.monotonic() >= self._next_recall:
            returned, again = await self._run(flows.recall(self._plan, self._overflow))
            if returned:
                self._lookout.forget()
            self._next_recall = time.monotonic() + (0 if again else RECALL_EVERY)
