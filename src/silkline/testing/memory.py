"""MemoryFrontier: `Frontier` without a server, for tests. Same names, same promises, same order of claims."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Self, Unpack
from weakref import WeakValueDictionary

from silkline.core.errors import ConfigError, LeaseLost, UnknownCrawl
from silkline.core.lease import Admission, Admissions, Lease, Refusal
from silkline.core.request import Request
from silkline.core.robots_fetch import FRESH
from silkline.core.url import parse
from silkline.core.verdict import Bury, Complete, Release, RetryIn, Verdict
from silkline.frontier.commands import MAX_BATCH
from silkline.frontier.flows import FULL_AGAIN_AFTER, Settlement
from silkline.frontier.frontier import DEFAULT_LEASE, DEFAULT_LOCK
from silkline.frontier.keys import CrawlKeys
from silkline.frontier.offers import identity_member, make_offers
from silkline.frontier.overflow import Overflow, open_overflow
from silkline.frontier.plan import Plan
from silkline.frontier.robots import origin_of, token_of
from silkline.frontier.robots_file import RobotsFile
from silkline.frontier.settings import Settings
from silkline.frontier.wishes import (
    RetryWishes,
    Wishes,
    as_batch,
    claim_terms,
    lease_ms,
    milliseconds,
    read_wishes,
)
from silkline.testing.memory_crawl import MemoryCrawl
from silkline.testing.memory_entries import Entry
from silkline.testing.memory_overseeing import MemoryOverseeing, MemoryServer, as_request

LOOK_EVERY = 0.01
"""Seconds between two looks of a claim that waits."""

_servers: WeakValueDictionary[str, MemoryServer] = WeakValueDictionary()


class MemoryFrontier(MemoryOverseeing):
    """One crawl's requests in memory. `Frontier` tells what each method promises.

    Nothing outlives the process. However many shards the crawl is to have, here it has one.
    """

    def __init__(
        self,
        server: MemoryServer,
        crawl: MemoryCrawl,
        lease: float,
        overflow: Overflow | None,
        clock: Callable[[], int] | None,
    ) -> None:
        self._server = server
        self._stored = crawl
        self._lease_ms = lease_ms(lease)
        self._overflow = overflow
        self._clock = clock

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
        """Open *crawl*; all who give the same *url*, whatever it is, share it. Without a *url* it is nobody else's."""
        keys = CrawlKeys(crawl)
        lease_ms(lease)
        settings = read_wishes(wishes)
        server = MemoryServer() if url is None else _servers.setdefault(url, MemoryServer())
        if crawl not in server.crawls:
            if not create:
                raise UnknownCrawl(f"there is no crawl named {crawl!r} in memory")
            server.crawls[crawl] = MemoryCrawl(Plan(keys, Settings(**settings)))
        stored = server.crawls[crawl]
        if conflicts := stored.plan.settings.conflicts(settings):
            raise ConfigError(f"the crawl {crawl!r} was created with other settings: {'; '.join(conflicts)}")
        return cls(server, stored, lease, open_overflow(overflow), clock)

    async def enqueue(self, requests: Iterable[str | Request] | str | Request, *, spill: bool = False) -> Admissions:
        items = as_batch(requests)
        answers = self._offer(self._at_now(), items, None)
        full = [as_request(item) for item, answer in zip(items, answers, strict=True) if answer is Admission.FULL]
        if spill and full and self._overflow:
            self._overflow.put(self.crawl, full)
            answers.spilled = True
        return answers

    def _offer(self, crawl: MemoryCrawl, items: Sequence[object], parent: Lease | None) -> Admissions:
        offers, refusals = make_offers(self.plan, items, parent)
        answers = [Admission.REFUSED] * len(items)
        for offer in offers:
            item = items[offer.position]
            request = item if isinstance(item, Request) else Request(str(item))
            entry = Entry(offer.host, offer.member, request.priority, offer.record)
            answer = crawl.admit(entry, request, parent)
            if isinstance(answer, Admission):
                answers[offer.position] = answer
            else:
                refusals.append(Refusal(offer.position, item, answer))
        if offers:
            crawl.has_room()
        return Admissions(answers, sorted(refusals, key=lambda refusal: refusal.position))

    async def claim(
        self, n: int = 1, *, wait: float = 0.0, lease: float | None = None, slack: float = 0.0
    ) -> list[Lease]:
        terms = claim_terms(n, wait, self._lease_ms if lease is None else lease_ms(lease), slack)
        deadline = time.monotonic() + wait
        while True:
            self._recall()
            leases = self._at_now().claim(min(n, MAX_BATCH), terms)
            left = deadline - time.monotonic()
            if leases or left <= 0:
                return leases
            await asyncio.sleep(min(LOOK_EVERY, left))

    async def extend(self, leases: Sequence[Lease], *, lease: float | None = None) -> list[Lease]:
        return self._at_now().extend(leases, self._lease_ms if lease is None else lease_ms(lease))

    async def vacate(self, leases: Sequence[Lease]) -> list[Lease]:
        return self._at_now().vacate(leases)

    async def complete(self, lease: Lease, links: Sequence[str | Request] = ()) -> Settlement:
        return await self._settle_one(lease, Complete(links))

    async def retry(self, lease: Lease, after: float = 0.0, **how: Unpack[RetryWishes]) -> Settlement:
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
        crawl, outcome = self._at_now(), Settlement()
        endings: dict[Lease, Verdict] = {}
        for lease, verdict in verdicts:
            if lease in endings:
                outcome.lost.append(lease)
            else:
                endings[lease] = verdict
        for lease, verdict in endings.items():
            if isinstance(verdict, Complete) and not self._store_links(crawl, lease, verdict.links, outcome.links):
                outcome.postponed.append(lease)
        endings |= dict.fromkeys(outcome.postponed, Release(FULL_AGAIN_AFTER))
        outcome.lost += crawl.settle(list(endings.items()))
        return outcome

    def _store_links(
        self, crawl: MemoryCrawl, lease: Lease, links: Sequence[str | Request], answers: Admissions
    ) -> bool:
        """Take the links of a page in and add to the answers; False when some found no room, here or on disk."""
        found = self._offer(crawl, links, lease)
        before = len(answers)
        answers += found
        answers.refusals += [refusal._replace(position=refusal.position + before) for refusal in found.refusals]
        without_room = [link for link, answer in zip(links, found, strict=True) if answer is Admission.FULL]
        if without_room and self._overflow:
            self._overflow.put(self.crawl, [as_request(link).found_on(lease.request) for link in without_room])
            answers.spilled = True
        return not without_room or self._overflow is not None

    def _recall(self) -> None:
        """Bring links back from the overflow, as far as there is room."""
        rows = self._overflow.take(self.crawl, MAX_BATCH) if self._overflow else []
        if self._overflow and rows:
            answers = self._offer(self._at_now(), [request for _, request in rows], None)
            full = [row for (row, _), answer in zip(rows, answers, strict=True) if answer is Admission.FULL]
            self._overflow.settle([row for row, _ in rows if row not in full], full)

    async def forget(self, requests: Iterable[str | Request] | str | Request) -> int:
        return self._at_now().forget([self._member(as_request(item)) for item in as_batch(requests)])

    async def mark_seen(self, identities: Iterable[bytes]) -> None:
        self._at_now().seen.update(identity_member(self.plan, identity) for identity in identities)

    async def robots(self, url: str, *, lock: float = DEFAULT_LOCK, lease: Lease | None = None) -> RobotsFile:
        address, lock_ms = parse(url), milliseconds("lock", lock)
        return self._at_now().robots(origin_of(address), lock_ms, token_of(lease, address))

    async def keep_robots(
        self, url: str, text: bytes | None, *, fresh: float = FRESH, crawl_delay: float | None = None
    ) -> bool:
        address, fresh_ms = parse(url), milliseconds("fresh", fresh, least=0)
        await self.set_host(address.host, crawl_delay=crawl_delay)
        self._at_now().keep_robots(origin_of(address), text, fresh_ms)
        return True

    async def finished(self) -> bool:
        crawl = self._at_now()
        return crawl.nothing_left and (crawl.pages_spent or not self._overflowing())

    async def close(self) -> None:
        if self._overflow:
            self._overflow.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
