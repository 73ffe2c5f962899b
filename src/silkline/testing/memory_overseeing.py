"""The half of a MemoryFrontier that looks and steers, as `Overseeing` is that of a `Frontier`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from silkline.core.errors import UnknownCrawl
from silkline.core.politeness import Politeness
from silkline.core.request import Request
from silkline.core.timing import Timing
from silkline.core.url import parse
from silkline.frontier.acts import Act, check_most, note_act, one_act
from silkline.frontier.answers import Answers
from silkline.frontier.commands import MAX_BATCH
from silkline.frontier.dead_letters import MOST_GROUPS, DeadCount, DeadGroup, GroupedBy, check_grouped, check_newest
from silkline.frontier.demand import Demand
from silkline.frontier.facts import Facts
from silkline.frontier.filters import DeadFilter
from silkline.frontier.fsck import Checkup
from silkline.frontier.history import Counts, Levels, Point
from silkline.frontier.host_state import HostState
from silkline.frontier.inspection import Stats, member_of
from silkline.frontier.letters import DeadLetter
from silkline.frontier.overflow import Overflow
from silkline.frontier.plan import Plan
from silkline.frontier.roster import (
    DEFAULT_EXPIRY,
    Order,
    WorkerState,
    check_limit,
    check_name,
    check_order,
    encode_info,
)
from silkline.frontier.sentences import Explanation
from silkline.frontier.server import Memory
from silkline.frontier.wishes import (
    DeadWishes,
    HostWishes,
    dead_filter,
    milliseconds,
    policy_words,
)
from silkline.testing.memory_counts import checkup, demand, host_states, stats
from silkline.testing.memory_crawl import MemoryCrawl
from silkline.testing.memory_entries import read_letter
from silkline.testing.memory_explain import explain
from silkline.testing.memory_letters import grouped, matching


class MemoryServer:
    """The crawls that frontiers with the same address share."""

    def __init__(self) -> None:
        self.crawls: dict[str, MemoryCrawl] = {}


class MemoryOverseeing:
    """What operators, dashboards and fleets ask of a crawl in memory."""

    _server: MemoryServer
    _stored: MemoryCrawl
    _overflow: Overflow | None
    _clock: Callable[[], int] | None

    @property
    def crawl(self) -> str:
        return self.plan.keys.crawl

    @property
    def plan(self) -> Plan:
        return self._stored.plan

    async def stats(self) -> Stats:
        return stats(self._at_now(), self._overflowing())

    async def dead(
        self, *, limit: int = 100, newest: int | None = None, **which: Unpack[DeadWishes]
    ) -> list[DeadLetter]:
        check_newest(newest)
        found = matching(self._at_now().letters.values(), self._which(which), newest)
        return [read_letter(letter) for letter in found[:limit]]

    async def dead_groups(
        self, by: GroupedBy = "reason", *, limit: int = 20, name: str | None = None
    ) -> list[DeadGroup]:
        check_grouped(by, limit)
        letters = self._at_now().letters.values()
        if name is not None:
            everything = dict(grouped(letters, DeadFilter(), by, 10_000))
            return [DeadGroup(name, everything.get(name, 0))]
        return grouped(letters, DeadFilter(), by, limit)

    async def count_dead(self, **which: Unpack[DeadWishes]) -> DeadCount:
        letters, chosen = self._at_now().letters.values(), self._which(which)
        reasons, hosts = (grouped(letters, chosen, by, MOST_GROUPS) for by in ("reason", "host"))
        return DeadCount(len(matching(letters, chosen)), reasons, hosts)

    async def revive(self, **which: Unpack[DeadWishes]) -> int:
        return self._at_now().end_dead(self._which(which), purge=False)

    async def purge(self, **which: Unpack[DeadWishes]) -> int:
        return self._at_now().end_dead(self._which(which), purge=True)

    async def hosts(self, *named: str, limit: int = 100) -> list[HostState]:
        crawl = self._at_now()
        if named:
            return [crawl.host(self._known(host)).state(crawl.now) for host in named]
        return host_states(crawl)[:limit]

    async def join(self, worker: str, *, info: Mapping[str, Any] | None = None, expires: float = DEFAULT_EXPIRY) -> int:
        told, expires_ms = encode_info(info), milliseconds("expires", expires)
        crawl = self._at_now()
        return crawl.roster.join(check_name(worker), crawl.time.server, expires_ms, told)

    async def leave(self, worker: str, *, shut: bool = False) -> int:
        crawl = self._at_now()
        return crawl.roster.leave(check_name(worker), crawl.time.server, shut=shut)

    async def workers(self, *, limit: int = 100) -> list[WorkerState]:
        crawl = self._at_now()
        return crawl.roster.workers(crawl.time.server, check_limit(limit))

    async def order(self, worker: str, order: Order) -> bool:
        return self._at_now().roster.order(check_name(worker), check_order(order)) != "unknown"

    async def ordered(self, worker: str) -> Order:
        answer: Any = self._at_now().roster.order(check_name(worker), "")
        return "work" if answer == "unknown" else answer

    async def add_history(self, counts: Counts, levels: Levels | None = None) -> None:
        crawl = self._at_now()
        crawl.history.add(crawl.time.server, counts, levels)

    async def add_answers(self, answers: Mapping[str, Answers]) -> None:
        crawl = self._at_now()
        for host, told in answers.items():
            crawl.host(self._known(host)).hear(told, crawl.now)

    async def history(self, *, since: float = 3600.0, step: float | None = None) -> list[Point]:
        crawl = self._at_now()
        return crawl.history.read(crawl.time.server, since, step)

    async def demand(self) -> Demand:
        return demand(self._at_now())

    async def fsck(self, *, repair: bool = False) -> Checkup:  # noqa: ARG002 - there is nothing that could be damaged
        return checkup(self._at_now())

    async def facts(self) -> list[Facts]:
        """There is no server to examine."""
        return []

    async def memory(self) -> Memory:
        return Memory(0, None)

    @property
    def timings(self) -> dict[str, Timing]:
        return {}

    async def explain(
        self,
        request: str | Request,
        *,
        agent: str | None = None,
        attempts: int | None = None,
        identities: Sequence[bytes] = (),
    ) -> Explanation:
        return explain(self._at_now(), as_request(request), agent, attempts, identities)

    async def note_act(self, by: str, what: str, about: str = "") -> None:
        note_act("", by, what, about)  # refuses nonsense
        crawl = self._at_now()
        crawl.acts.appendleft(one_act(crawl.time.server / 1000, by, what, about))

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

    def _which(self, which: DeadWishes) -> DeadFilter:
        chosen = dead_filter(which, self._now() / 1000)
        chosen.shard()  # refuses an id that cannot be one
        return chosen

    def _at_now(self) -> MemoryCrawl:
        if self._server.crawls.get(self.crawl) is not self._stored:
            raise UnknownCrawl(f"the crawl {self.crawl!r} was removed")
        self._stored.tell(self._now())
        return self._stored

    def _now(self) -> int:
        return time.time_ns() // 1_000_000 if self._clock is None else self._clock()

    def _overflowing(self) -> int:
        return self._overflow.count(self.crawl) if self._overflow else 0

    def _known(self, host: str) -> str:
        self.plan.shard_of(host)  # refuses what is no host
        return host

    def _member(self, request: Request) -> str:
        return member_of(self.plan, request, parse(request.url))


def as_request(item: str | Request) -> Request:
    return item if isinstance(item, Request) else Request(item)
