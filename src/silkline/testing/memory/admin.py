"""MemoryCrawlAdmin: the methods of a `MemoryFrontier` for operators, as `CrawlAdmin` has those of a `Frontier`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Unpack, get_args

from silkline.core.politeness import Budget, Politeness
from silkline.core.proxy_health import ProxyState
from silkline.core.request import Request
from silkline.frontier.admin import CrawlAdmin
from silkline.frontier.admin_verbs.audit import AuditEntry, check_most, who_paused
from silkline.frontier.admin_verbs.dead_letters import (
    MOST_GROUPS,
    DeadCount,
    DeadFilter,
    DeadFilterArguments,
    DeadGroup,
    DeadLetter,
    GroupedBy,
    after_position,
    check_grouped,
    check_newest,
    dead_filter,
    reason_group,
)
from silkline.frontier.admin_verbs.explain_text import Explanation
from silkline.frontier.admin_verbs.fsck import FsckReport
from silkline.frontier.admin_verbs.requests import ListedState, RequestPage
from silkline.frontier.admin_verbs.stats import (
    AUDITED,
    NEWEST_DEAD,
    CrawlStatus,
    Demand,
    Stats,
    cause_of,
    mostly_failed,
)
from silkline.frontier.admin_verbs.task_states import MOST_TASKS, TaskState, may_be_task, task_states
from silkline.frontier.store.run_options import RunOptions, encode
from silkline.frontier.store.settings import check_capacity, check_dead_limit
from silkline.frontier.transport.command import MAX_BATCH
from silkline.frontier.verbs.history import HandlerCounts, Point, ranked
from silkline.frontier.verbs.hosts import HostArguments, HostState, host_words
from silkline.frontier.verbs.proxies import check_limit_of_proxies
from silkline.frontier.verbs.workers import (
    ALL_WORKERS,
    WorkerOrder,
    WorkerState,
    check_limit,
    check_name,
    check_order,
    task_reports,
)
from silkline.testing.memory import requests
from silkline.testing.memory.counts import activity, checkup, demand, host_states, stats
from silkline.testing.memory.dead_letters import grouped, matching
from silkline.testing.memory.entries import Letter, read_letter
from silkline.testing.memory.explain import explain
from silkline.testing.memory.session import MemorySession, as_request, documented_as


@documented_as(CrawlAdmin)
class MemoryCrawlAdmin:
    """`MemoryFrontier.admin`: inspects a crawl in memory and controls it. `CrawlAdmin` documents the methods."""

    def __init__(self, session: MemorySession) -> None:
        self._session = session

    async def stats(self) -> Stats:
        return stats(self._session.at_now(), self._session.overflowing())

    async def status(self) -> CrawlStatus:
        counted, crawl = await self.stats(), self._session.at_now()
        active = activity(crawl)
        if counted.state == "paused":
            return CrawlStatus(counted, active, who_paused(list(crawl.audit_log)[:AUDITED]))
        newest = await self.dead(limit=NEWEST_DEAD) if mostly_failed(active.five_minutes) else []
        return CrawlStatus(counted, active, cause=cause_of(active, newest))

    async def dead(
        self, *, limit: int = 100, newest: int | None = None, after: str = "", **which: Unpack[DeadFilterArguments]
    ) -> list[DeadLetter]:
        check_newest(newest)
        shift = self._session.stored.time.shift
        found = [read_letter(letter, shift) for letter in self._letters(self._which(which), None if after else newest)]
        return (after_position(found, after) if after else found)[:limit]

    async def dead_groups(
        self, by: GroupedBy = "reason", *, limit: int = 20, name: str | None = None
    ) -> list[DeadGroup]:
        check_grouped(by, limit)
        letters = self._letters(DeadFilter())
        if name is not None:
            everything = dict(grouped(letters, by, 10_000))
            return [DeadGroup(name, everything.get(name, 0))]
        return grouped(letters, by, limit)

    async def dead_examples(self, names: Sequence[str], *, newest: int = 2000) -> dict[str, DeadLetter]:
        check_newest(newest)
        found, shift = self._letters(DeadFilter(), newest), self._session.stored.time.shift
        examples = {
            reason_group(letter.reason, letter.entry.host): read_letter(letter, shift) for letter in reversed(found)
        }
        return {name: examples[name] for name in names if name in examples}

    async def count_dead(self, **which: Unpack[DeadFilterArguments]) -> DeadCount:
        found = self._letters(self._which(which))
        reasons, hosts = (grouped(found, by, MOST_GROUPS) for by in ("reason", "host"))
        return DeadCount(len(found), reasons, hosts)

    def _letters(self, chosen: DeadFilter, newest: int | None = None) -> list[Letter]:
        crawl = self._session.at_now()
        return matching(crawl.letters.values(), chosen, newest, shift=crawl.time.shift)

    async def revive(self, **which: Unpack[DeadFilterArguments]) -> int:
        return self._session.at_now().end_dead(self._which(which), purge=False)

    async def purge(self, **which: Unpack[DeadFilterArguments]) -> int:
        return self._session.at_now().end_dead(self._which(which), purge=True)

    async def hosts(self, *named: str, limit: int = 100) -> list[HostState]:
        crawl = self._session.at_now()
        if named:
            return [crawl.state_of(crawl.host(self._session.known(host))) for host in named]
        return host_states(crawl)[:limit]

    async def workers(self, *, limit: int = 100) -> list[WorkerState]:
        crawl = self._session.at_now()
        return crawl.roster.workers(crawl.time.server, check_limit(limit))

    async def proxies(self, *, limit: int = 100) -> list[ProxyState]:
        crawl = self._session.at_now()
        return crawl.proxies.listed(crawl.time.server, check_limit_of_proxies(limit))

    async def order(self, worker: str, order: WorkerOrder) -> bool:
        return self._session.at_now().roster.order(check_name(worker), check_order(order)) != "unknown"

    async def history(self, *, since: float = 3600.0, step: float | None = None) -> list[Point]:
        crawl = self._session.at_now()
        return crawl.history.read(crawl.time.server, since, step)

    async def handlers(self) -> dict[str, HandlerCounts]:
        return ranked(self._session.at_now().history.handlers)

    async def tasks(self) -> list[TaskState]:
        reported, counted = task_reports(await self.workers(limit=ALL_WORKERS)), await self.handlers()
        names = list(reported)
        delayed = Counter(held.entry.host for held in self._session.at_now().delayed)
        for host in dict.fromkeys([*(state.host for state in await self.hosts()), *delayed]):
            is_new = host not in reported and (may_be_task(host) or host in counted)
            if is_new and await self._has_calls(host, counted):
                names.append(host)
        return task_states(await self.hosts(*names[:MOST_TASKS]) if names else [], delayed, counted, reported)

    async def _has_calls(self, name: str, counted: Mapping[str, HandlerCounts]) -> bool:
        for state in get_args(ListedState):
            for one in (await self.requests(state, host=name, limit=1)).requests:
                return one.request.handler == name
        return name in counted

    async def demand(self) -> Demand:
        return demand(self._session.at_now())

    async def fsck(self, *, repair: bool = False) -> FsckReport:  # noqa: ARG002 - there is nothing that could be damaged
        return checkup(self._session.at_now())

    async def explain(
        self,
        request: str | Request,
        *,
        agent: str | None = None,
        attempts: int | None = None,
        identities: Sequence[bytes] = (),
    ) -> Explanation:
        return explain(self._session.at_now(), as_request(request), agent, attempts, identities)

    async def requests(
        self, state: ListedState = "ready", *, host: str | None = None, limit: int = 100, after: str = ""
    ) -> RequestPage:
        known = None if host is None else self._session.known(host)
        return requests.requests(self._session.at_now(), state, known, limit, after)

    async def drop(self, ids: Iterable[str]) -> int:
        return requests.drop(self._session.at_now(), ids)

    async def promote(self, ids: Iterable[str]) -> int:
        return requests.promote(self._session.at_now(), ids)

    async def audit(self, *, limit: int = 100) -> list[AuditEntry]:
        return list(self._session.at_now().audit_log)[: check_most(limit)]

    async def pause(self, host: str | None = None) -> None:
        if host is None:
            self._session.at_now().set_state("paused")
        else:
            await self.set_host(host, paused=True)

    async def resume(self, host: str | None = None) -> None:
        if host is None:
            self._session.at_now().set_state("open")
        else:
            await self.set_host(host, paused=False)

    async def cancel(self, host: str | None = None) -> int:
        if host is None:
            return self._session.at_now().cancel()
        return self._session.at_now().drop(self._session.known(host))

    async def remove(self) -> None:
        self._session.at_now()
        del self._session.server.crawls[self._session.crawl]
        while self._session.overflow and (rows := self._session.overflow.take(self._session.crawl, MAX_BATCH)):
            self._session.overflow.settle([row for row, _ in rows], [])

    async def set_host(self, host: str, **pace: Unpack[HostArguments]) -> HostState:
        host_words(pace)  # raises if an argument is wrong
        crawl = self._session.at_now()
        crawl.set_host(self._session.known(host), pace)
        return crawl.state_of(crawl.host(host))

    async def run_options(self) -> RunOptions:
        return self._session.at_now().run_options

    async def set_run_options(self, options: RunOptions) -> None:
        encode(options)
        self._session.at_now().run_options = options

    async def set_politeness(self, politeness: Politeness) -> None:
        self._session.at_now().set_politeness(politeness)

    async def set_budget(self, budget: Budget) -> None:
        self._session.at_now().set_budget(budget)

    async def set_capacity(self, capacity: int) -> None:
        self._session.at_now().change_settings(capacity=check_capacity(capacity))

    async def set_dead_limit(self, limit: int) -> None:
        crawl = self._session.at_now()
        crawl.change_settings(dead_limit=check_dead_limit(limit))
        crawl.drop_excess()

    def _which(self, which: DeadFilterArguments) -> DeadFilter:
        chosen = dead_filter(which, self._session.now() / 1000)
        chosen.shard()  # raises if the id is malformed
        return chosen
