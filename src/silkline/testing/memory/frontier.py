"""MemoryFrontier: `Frontier` without a server, for tests. It has the same methods, guarantees and order of claims."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack
from weakref import WeakValueDictionary

from msgspec import UNSET

from silkline.core.lease import Lease, Leases
from silkline.core.request import Request
from silkline.core.robots_fetch import FRESH
from silkline.core.url import parse
from silkline.core.verdict import KEEP_RESULT, Bury, Complete, Release, RetryIn, Verdict
from silkline.errors import LeaseLost, SettingsConflict, UnknownCrawl
from silkline.frontier.arguments import CrawlArguments, milliseconds, read_crawl_arguments
from silkline.frontier.frontier import DEFAULT_LEASE, DEFAULT_LOCK, Frontier
from silkline.frontier.locks.locks import DEFAULT_TTL, Lock, RateLimiter, Semaphore, name_for_site
from silkline.frontier.overflow import Overflow, open_overflow
from silkline.frontier.store import record
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.store.layout import CrawlLayout
from silkline.frontier.store.settings import DEFAULT_DEAD_LIMIT, Settings
from silkline.frontier.transport.command import MAX_BATCH
from silkline.frontier.verbs.claim import (
    MOST_ROUNDS,
    ClaimTerms,
    SuspectPolicy,
    claim_terms,
    expired_of,
    expiry_of,
    lease_ms,
    wait_seconds,
)
from silkline.frontier.verbs.enqueue import Admission, Admissions, Refusal, as_batch, identity_member, make_offers
from silkline.frontier.verbs.results import Result, one_request, result_id
from silkline.frontier.verbs.robots import RobotsFile, origin_of, token_of
from silkline.frontier.verbs.settle import (
    FULL_AGAIN_AFTER,
    Postpone,
    RetryArguments,
    Settlement,
    as_leases,
    as_verdicts,
)
from silkline.testing.memory.admin import MemoryCrawlAdmin
from silkline.testing.memory.crawl import MemoryCrawl
from silkline.testing.memory.entries import MemoryEntry, read_record
from silkline.testing.memory.internal import MemoryInternals
from silkline.testing.memory.locks import MemoryLocks
from silkline.testing.memory.session import MemoryServer, MemorySession, as_request, documented_as

LOOK_EVERY = 0.01
"""Seconds between two polls of a waiting claim."""

_servers: WeakValueDictionary[str, MemoryServer] = WeakValueDictionary()


@documented_as(Frontier)
class MemoryFrontier:
    """A crawl in memory, for tests: a `Frontier` without a server. It has no `inbox`.

    The data is lost when the process ends. The crawl has one shard, whatever its settings say.
    """

    def __init__(
        self,
        server: MemoryServer,
        crawl: MemoryCrawl,
        lease: float,
        overflow: Overflow | None,
        clock: Callable[[], int] | None,
    ) -> None:
        self._session = MemorySession(server, crawl, overflow, clock)
        self._admin = MemoryCrawlAdmin(self._session)
        self._internal = MemoryInternals(self._session)
        self._locks = MemoryLocks(self._session)
        self._overflow = overflow
        self._lease_ms = lease_ms(lease)

    @classmethod
    async def open(  # noqa: PLR0913 - those of Frontier
        cls,
        url: str | None = None,
        *,
        crawl: str,
        create: bool = True,
        wait: float = 0.0,
        lease: float = DEFAULT_LEASE,
        overflow: Overflow | Path | str | None = None,
        clock: Callable[[], int] | None = None,
        client_name: str | None = None,  # noqa: ARG003 - there is no connection to name
        **options: Unpack[CrawlArguments],
    ) -> Self:
        """Open *crawl*. Frontiers with the same *url*, which may be any string, share it; without a *url* it is not shared."""
        keys = CrawlKeys(crawl)
        lease_ms(lease)
        settings = read_crawl_arguments(options)
        server = MemoryServer() if url is None else _servers.setdefault(url, MemoryServer())
        deadline = time.monotonic() + wait_seconds(wait)
        while crawl not in server.crawls and not create and time.monotonic() < deadline:  # noqa: ASYNC110 - a dict has no event
            await asyncio.sleep(min(LOOK_EVERY, max(0.0, deadline - time.monotonic())))
        if crawl not in server.crawls:
            if not create:
                raise UnknownCrawl(f"there is no crawl named {crawl!r} in memory")
            server.crawls[crawl] = MemoryCrawl(
                CrawlLayout(
                    keys,
                    Settings.create(
                        **{
                            "dead_limit": DEFAULT_DEAD_LIMIT,
                            "politeness_by_default": "politeness" not in settings,
                            **settings,
                        }
                    ),
                )
            )
        stored = server.crawls[crawl]
        if "politeness" in settings and stored.layout.settings.politeness_by_default:
            stored.set_politeness(settings["politeness"])
        if conflicts := stored.layout.settings.conflicts(settings):
            raise SettingsConflict(f"the crawl {crawl!r} was created with other settings: {'; '.join(conflicts)}")
        return cls(server, stored, lease, open_overflow(overflow), clock)

    @property
    def crawl(self) -> str:
        return self._session.crawl

    @property
    def layout(self) -> CrawlLayout:
        return self._session.layout

    @property
    def admin(self) -> MemoryCrawlAdmin:
        return self._admin

    @property
    def internal(self) -> MemoryInternals:
        return self._internal

    @property
    def losses(self) -> int:
        return 0

    async def enqueue(self, requests: Iterable[str | Request] | str | Request, *, spill: bool = False) -> Admissions:
        items = as_batch(requests)
        answers = self._offer(self._session.at_now(), items, None)
        full = [as_request(item) for item, answer in zip(items, answers, strict=True) if answer is Admission.FULL]
        if spill and full and self._overflow:
            answers.spill(full, self._overflow.put(self.crawl, full) or ())
        return answers

    def _offer(self, crawl: MemoryCrawl, items: Sequence[object], parent: Lease | None) -> Admissions:
        offers, refusals = make_offers(self.layout, items, parent)
        answers = [Admission.REFUSED] * len(items)
        for offer in offers:
            item = items[offer.position]
            request = item if isinstance(item, Request) else Request(str(item))
            stored = record.stored(offer.record, crawl.now // 1000)
            entry = MemoryEntry(offer.host, offer.member, request.priority, stored)
            answer = crawl.admit(entry, request, parent)
            if isinstance(answer, Admission):
                answers[offer.position] = answer
            else:
                refusals.append(Refusal(offer.position, item, answer))
        if offers:
            crawl.has_room()
        return Admissions(answers, sorted(refusals, key=lambda refusal: refusal.position))

    async def claim(
        self,
        n: int = 1,
        *,
        wait: float = 0.0,
        lease: float | None = None,
        slack: float = 0.0,
        suspects: SuspectPolicy = "any",
        reserve: Mapping[str, int] | None = None,
        prompt: Collection[str] = (),
    ) -> Leases:
        terms = claim_terms(
            n, wait, self._lease_ms if lease is None else lease_ms(lease), slack, suspects, reserve, prompt
        )
        deadline = time.monotonic() + wait
        while True:
            if self._session.tally.is_due:
                self._session.report()
            self._recall()
            leases = self._claim_usable(min(n, MAX_BATCH), terms)
            left = deadline - time.monotonic()
            if leases or left <= 0:
                self._session.tally.claimed(leases, terms.lease_ms)
                return leases
            await asyncio.sleep(min(LOOK_EVERY, left))

    def _claim_usable(self, wanted: int, terms: ClaimTerms) -> Leases:
        crawl = self._session.at_now()
        for _ in range(MOST_ROUNDS):
            leases = crawl.claim(wanted, terms)
            expired = expired_of(leases, terms.lease_ms)
            crawl.settle([(lease, expiry_of(lease)) for lease in expired])
            usable = Leases([lease for lease in leases if lease not in expired], isolate=leases.isolate)
            if usable or not expired:
                return usable
        return Leases()

    async def extend(self, leases: Sequence[Lease], *, lease: float | None = None) -> list[Lease]:
        return self._session.at_now().extend(as_leases(leases), self._lease_ms if lease is None else lease_ms(lease))

    async def vacate(self, leases: Sequence[Lease]) -> list[Lease]:
        return self._session.at_now().vacate(as_leases(leases))

    async def complete(
        self, lease: Lease, links: Sequence[str | Request] = (), *, result: Any = UNSET, keep: float = KEEP_RESULT
    ) -> Settlement:
        return await self._settle_one(lease, Complete(links, result=result, keep=keep))

    async def result(self, request: str | Request, *, wait: float = 0.0) -> Result | None:
        name, deadline = result_id(self.layout, one_request(request)), time.monotonic() + wait_seconds(wait)
        before = set(self._session.at_now().letters)
        while True:
            crawl = self._session.at_now()
            found = crawl.result(name)
            left = deadline - time.monotonic()
            buried = (read_record(crawl.letters[token].entry, crawl.now)[0] for token in crawl.letters.keys() - before)
            if found or left <= 0 or any(result_id(self.layout, request) == name for request in buried):
                return found
            await asyncio.sleep(min(LOOK_EVERY, left))

    async def retry(self, lease: Lease, after: float = 0.0, **how: Unpack[RetryArguments]) -> Settlement:
        return await self._settle_one(lease, RetryIn(after, **how))

    async def release(self, lease: Lease, after: float = 0.0) -> Settlement:
        return await self._settle_one(lease, Release(after))

    async def bury(self, lease: Lease, reason: str, status: int | None = None) -> Settlement:
        return await self._settle_one(lease, Bury(reason, status))

    async def _settle_one(self, lease: Lease, verdict: Verdict) -> Settlement:
        outcome = await self.settle([(lease, verdict)])
        if outcome.lost:
            raise LeaseLost(outcome.lost)
        return outcome

    async def settle(self, verdicts: Iterable[tuple[Lease, Verdict]]) -> Settlement:
        crawl, outcome = self._session.at_now(), Settlement()
        endings: dict[Lease, Verdict] = {}
        pairs = as_verdicts(verdicts)
        for lease, verdict in pairs:
            if lease in endings:
                outcome.lost.append(lease)
            else:
                endings[lease] = verdict
        outcome.postponed = self._store_links(crawl, endings, outcome)
        endings |= dict.fromkeys(outcome.postponed, Postpone(FULL_AGAIN_AFTER))
        dropped = crawl.dead_dropped
        noted = len(crawl.groups.notes)
        outcome.lost += crawl.settle(list(endings.items()))
        if len(crawl.groups.notes) > noted:
            crawl.report_ended()
        outcome.dropped_letters = crawl.dead_dropped - dropped
        self._session.tally.settled(pairs, outcome)
        return outcome

    def _store_links(self, crawl: MemoryCrawl, endings: dict[Lease, Verdict], outcome: Settlement) -> list[Lease]:
        """Add the links of pages; return the pages with links that fit neither here nor on disk.

        Links that bypass the seen filter come last, as in `Frontier`.
        """
        found = [
            (lease, link)
            for lease, verdict in endings.items()
            for link in (verdict.links if isinstance(verdict, Complete) else ())
        ]
        answers = Admissions([Admission.REFUSED] * len(found))
        for unfiltered in (False, True):
            for position, (lease, link) in enumerate(found):
                if bool(isinstance(link, Request) and link.dont_filter) == unfiltered:
                    answer = self._offer(crawl, (link,), lease)
                    answers[position] = answer[0]
                    answers.refusals += [refusal._replace(position=position) for refusal in answer.refusals]
        answers.refusals.sort(key=lambda refusal: refusal.position)
        full = [pair for pair, answer in zip(found, answers, strict=True) if answer is Admission.FULL]
        if full and self._overflow:
            waiting = [as_request(link).found_on(lease.request) for lease, link in full]
            answers.spill(waiting, self._overflow.put(self.crawl, waiting) or ())
        outcome.links = answers
        return [] if self._overflow else list(dict.fromkeys(lease for lease, _ in full))

    def _recall(self) -> None:
        """Enqueue links from the overflow while there is room."""
        rows = self._overflow.take(self.crawl, MAX_BATCH) if self._overflow else []
        if self._overflow and rows:
            answers = self._offer(self._session.at_now(), [request for _, request in rows], None)
            full = [row for (row, _), answer in zip(rows, answers, strict=True) if answer is Admission.FULL]
            self._overflow.settle([row for row, _ in rows if row not in full], full)

    async def forget(self, requests: Iterable[str | Request] | str | Request) -> int:
        return self._session.at_now().forget([self._session.member(as_request(item)) for item in as_batch(requests)])

    async def mark_seen(self, identities: Iterable[bytes]) -> None:
        self._session.at_now().seen.update(identity_member(self.layout, identity) for identity in identities)

    async def robots(self, url: str, *, lock: float = DEFAULT_LOCK, lease: Lease | None = None) -> RobotsFile:
        address, lock_ms = parse(url), milliseconds("lock", lock)
        return self._session.at_now().robots(origin_of(address), lock_ms, token_of(lease, address))

    async def keep_robots(
        self,
        url: str,
        text: bytes | None,
        *,
        fresh: float = FRESH,
        crawl_delay: float | None = None,
        reason: str = "",
    ) -> bool:
        address, fresh_ms = parse(url), milliseconds("fresh", fresh, least=0)
        await self.admin.set_host(address.host, crawl_delay=crawl_delay)
        self._session.at_now().keep_robots(origin_of(address), text, fresh_ms, reason)
        return True

    def lock(self, name: str, ttl: float = DEFAULT_TTL) -> Lock:
        return Lock(self._locks, name, ttl)

    def semaphore(self, name: str, n: int, ttl: float = DEFAULT_TTL) -> Semaphore:
        return Semaphore(self._locks, name, n, ttl)

    def limiter(self, name: str, rate: float | str, burst: int = 1, *, site: str | None = None) -> RateLimiter:
        return RateLimiter(self._locks, name if site is None else name_for_site(name, site), rate, burst)

    async def finished(self) -> bool:
        crawl = self._session.at_now()
        return crawl.nothing_left and (crawl.pages_spent or not self._session.overflowing().requests)

    async def refresh(self) -> None:
        """Do nothing: all clients of a crawl in memory share its settings."""
        self._session.at_now()

    async def close(self) -> None:
        self._session.report()
        if self._overflow:
            self._overflow.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
