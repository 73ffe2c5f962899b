"""MemoryFrontier: `Frontier` without a server, for tests. Same names, same promises, same order of claims."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack
from weakref import WeakValueDictionary

from silkline.core.errors import ConfigError, LeaseLost, UnknownCrawl
from silkline.core.lease import Admission, Admissions, Lease, Refusal
from silkline.core.politeness import Politeness
from silkline.core.request import Request, mark_of
from silkline.core.robots_fetch import FRESH
from silkline.core.timing import Timing
from silkline.core.url import parse
from silkline.core.verdict import Bury, Complete, Release, RetryIn, Verdict
from silkline.frontier.acts import Act, check_most, note_act, one_act
from silkline.frontier.answers import Answers
from silkline.frontier.commands import MAX_BATCH, DeadLetter
from silkline.frontier.dead_letters import MOST_GROUPS, DeadCount, DeadGroup, GroupedBy, check_grouped, check_newest
from silkline.frontier.demand import Demand
from silkline.frontier.facts import Facts
from silkline.frontier.filters import DeadFilter
from silkline.frontier.flows import FULL_AGAIN_AFTER, Settlement
from silkline.frontier.frontier import DEFAULT_LEASE, DEFAULT_LOCK
from silkline.frontier.fsck import Checkup
from silkline.frontier.history import Counts, Levels, Point
from silkline.frontier.host_state import HostState
from silkline.frontier.inspection import Stats
from silkline.frontier.keys import CrawlKeys
from silkline.frontier.offers import identity_member, make_offers
from silkline.frontier.overflow import Overflow, open_overflow
from silkline.frontier.plan import Plan
from silkline.frontier.robots import origin_of, token_of
from silkline.frontier.robots_file import RobotsFile
from silkline.frontier.roster import (
    DEFAULT_EXPIRY,
    Order,
    WorkerState,
    check_limit,
    check_name,
    check_order,
    encode_info,
)
from silkline.frontier.seen import member
from silkline.frontier.sentences import Explanation
from silkline.frontier.server import Memory
from silkline.frontier.settings import Settings
from silkline.frontier.wishes import (
    DeadWishes,
    HostWishes,
    RetryWishes,
    Wishes,
    as_batch,
    claim_terms,
    dead_filter,
    lease_ms,
    milliseconds,
    policy_words,
    read_wishes,
)
from silkline.testing.memory_crawl import MemoryCrawl
from silkline.testing.memory_entries import Entry, read_letter
from silkline.testing.memory_explain import explain

LOOK_EVERY = 0.01
"""Seconds between two looks of a claim that waits."""


class MemoryServer:
    """The crawls that frontiers with the same address share."""

    def __init__(self) -> None:
        self.crawls: dict[str, MemoryCrawl] = {}


_servers: WeakValueDictionary[str, MemoryServer] = WeakValueDictionary()


class MemoryFrontier:
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

    @property
    def crawl(self) -> str:
        return self.plan.keys.crawl

    @property
    def plan(self) -> Plan:
        return self._stored.plan

    async def enqueue(self, requests: Iterable[str | Request] | str | Request, *, spill: bool = False) -> Admissions:
        items = as_batch(requests)
        answers = self._offer(self._at_now(), items, None)
        full = [_request(item) for item, answer in zip(items, answers, strict=True) if answer is Admission.FULL]
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
            self._overflow.put(self.crawl, [_request(link).found_on(lease.request) for link in without_room])
            answers.spilled = True
        return not without_room or self._overflow is not None

    def _recall(self) -> None:
        """Bring links back from the overflow, as far as there is room."""
        rows = self._overflow.take(self.crawl, MAX_BATCH) if self._overflow else []
        if self._overflow and rows:
            answers = self._offer(self._at_now(), [request for _, request in rows], None)
            full = [row for (row, _), answer in zip(rows, answers, strict=True) if answer is Admission.FULL]
            self._overflow.settle([row for row, _ in rows if row not in full], full)

    async def dead(
        self, *, limit: int = 100, newest: int | None = None, **which: Unpack[DeadWishes]
    ) -> list[DeadLetter]:
        check_newest(newest)
        found = self._at_now().dead(self._which(which), newest)
        return [read_letter(letter) for letter in found[:limit]]

    async def dead_groups(
        self, by: GroupedBy = "reason", *, limit: int = 20, name: str | None = None
    ) -> list[DeadGroup]:
        check_grouped(by, limit)
        if name is not None:
            everything = dict(self._at_now().dead_groups(DeadFilter(), by, 10_000))
            return [DeadGroup(name, everything.get(name, 0))]
        return self._at_now().dead_groups(DeadFilter(), by, limit)

    async def count_dead(self, **which: Unpack[DeadWishes]) -> DeadCount:
        crawl, chosen = self._at_now(), self._which(which)
        reasons, hosts = (crawl.dead_groups(chosen, by, MOST_GROUPS) for by in ("reason", "host"))
        return DeadCount(len(crawl.dead(chosen)), reasons, hosts)

    async def revive(self, **which: Unpack[DeadWishes]) -> int:
        return self._at_now().end_dead(self._which(which), purge=False)

    async def purge(self, **which: Unpack[DeadWishes]) -> int:
        return self._at_now().end_dead(self._which(which), purge=True)

    def _which(self, which: DeadWishes) -> DeadFilter:
        chosen = dead_filter(which, self._now() / 1000)
        chosen.shard()  # refuses an id that cannot be one
        return chosen

    async def forget(self, requests: Iterable[str | Request] | str | Request) -> int:
        return self._at_now().forget([self._member(_request(item)) for item in as_batch(requests)])

    async def mark_seen(self, identities: Iterable[bytes]) -> None:
        self._at_now().seen.update(identity_member(self.plan, identity) for identity in identities)

    async def explain(
        self, request: str | Request, *, agent: str | None = None, attempts: int | None = None
    ) -> Explanation:
        asked = _request(request)
        return explain(self._at_now(), asked, self._member(asked), agent, attempts)

    async def note_act(self, by: str, what: str, about: str = "") -> None:
        note_act("", by, what, about)  # refuses nonsense
        crawl = self._at_now()
        crawl.acts.appendleft(one_act(crawl.now / 1000, by, what, about))

    async def audit(self, *, limit: int = 100) -> list[Act]:
        return list(self._at_now().acts)[: check_most(limit)]

    async def pause(self, host: str | None = None) -> None:
        if host is None:
            self._at_now().set_state("paused")
        else:
            await self.set_host(host, paused=True)

    async def resume(self, host: str | None = None) -> None:
        if host is None:
            self._at_now().set_state("open")
        else:
            await self.set_host(host, paused=False)

    async def cancel(self, host: str | None = None) -> int:
        if host is None:
            return self._at_now().cancel()
        return self._at_now().drop(self._known(host))

    async def remove(self) -> None:
        self._at_now()
        del self._server.crawls[self.crawl]
        while self._overflow and (rows := self._overflow.take(self.crawl, MAX_BATCH)):
            self._overflow.settle([row for row, _ in rows], [])

    async def set_host(self, host: str, **pace: Unpack[HostWishes]) -> HostState:
        policy_words(pace)  # refuses nonsense
        crawl = self._at_now()
        crawl.set_host(self._known(host), pace)
        return crawl.host(host).state(crawl.now)

    async def set_politeness(self, politeness: Politeness) -> None:
        self._at_now().set_politeness(politeness)

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

    async def hosts(self, *named: str, limit: int = 100) -> list[HostState]:
        crawl = self._at_now()
        if named:
            return [crawl.host(self._known(host)).state(crawl.now) for host in named]
        return crawl.host_states()[:limit]

    async def join(self, worker: str, *, info: Mapping[str, Any] | None = None, expires: float = DEFAULT_EXPIRY) -> int:
        told, expires_ms = encode_info(info), milliseconds("expires", expires)
        crawl = self._at_now()
        return crawl.roster.join(check_name(worker), crawl.now, expires_ms, told)

    async def leave(self, worker: str, *, shut: bool = False) -> int:
        crawl = self._at_now()
        return crawl.roster.leave(check_name(worker), crawl.now, shut=shut)

    async def workers(self, *, limit: int = 100) -> list[WorkerState]:
        crawl = self._at_now()
        return crawl.roster.workers(crawl.now, check_limit(limit))

    async def order(self, worker: str, order: Order) -> bool:
        return self._at_now().roster.order(check_name(worker), check_order(order)) != "unknown"

    async def ordered(self, worker: str) -> Order:
        answer: Any = self._at_now().roster.order(check_name(worker), "")
        return "work" if answer == "unknown" else answer

    async def add_history(self, counts: Counts, levels: Levels | None = None) -> None:
        crawl = self._at_now()
        crawl.history.add(crawl.now, counts, levels)

    async def add_answers(self, answers: Mapping[str, Answers]) -> None:
        crawl = self._at_now()
        for host, told in answers.items():
            crawl.host(self._known(host)).hear(told, crawl.now)

    async def history(self, *, since: float = 3600.0, step: float | None = None) -> list[Point]:
        crawl = self._at_now()
        return crawl.history.read(crawl.now, since, step)

    async def demand(self) -> Demand:
        return self._at_now().demand()

    async def fsck(self, *, repair: bool = False) -> Checkup:  # noqa: ARG002 - there is nothing that could be damaged
        return self._at_now().checkup()

    async def facts(self) -> list[Facts]:
        """There is no server to examine."""
        return []

    async def memory(self) -> Memory:
        return Memory(0, None)

    @property
    def timings(self) -> dict[str, Timing]:
        return {}

    async def stats(self) -> Stats:
        return self._at_now().stats(self._overflowing())

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

    def _at_now(self) -> MemoryCrawl:
        if self._server.crawls.get(self.crawl) is not self._stored:
            raise UnknownCrawl(f"the crawl {self.crawl!r} was removed")
        self._stored.now = self._now()
        return self._stored

    def _now(self) -> int:
        return time.time_ns() // 1_000_000 if self._clock is None else self._clock()

    def _overflowing(self) -> int:
        return self._overflow.count(self.crawl) if self._overflow else 0

    def _known(self, host: str) -> str:
        self.plan.shard_of(host)  # refuses what is no host
        return host

    def _member(self, request: Request) -> str:
        settings = self.plan.settings
        mark = mark_of(request, parse(request.url), seed=settings.seed)
        return member(mark, settings.seen.kind)


def _request(item: str | Request) -> Request:
    return item if isinstance(item, Request) else Request(item)
