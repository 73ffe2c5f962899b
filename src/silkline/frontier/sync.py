"""SyncFrontier: `Frontier` for plain code. The same names, the same promises, no logic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

from silkline.core.errors import LeaseLost
from silkline.core.lease import Admissions, Lease
from silkline.core.lookout import Lookout
from silkline.core.politeness import Politeness
from silkline.core.request import Request
from silkline.core.robots_fetch import FRESH
from silkline.core.timing import Timing
from silkline.core.verdict import Bury, Complete, Release, RetryIn, Verdict
from silkline.frontier import (
    acts,
    admitting,
    commands,
    dead_letters,
    demand,
    explaining,
    flows,
    fsck,
    history,
    inspection,
    removal,
    robots,
    roster,
)
from silkline.frontier.acts import Act
from silkline.frontier.address import read_url
from silkline.frontier.answers import Answers
from silkline.frontier.bell import SyncBell
from silkline.frontier.commands import Command
from silkline.frontier.connection import SyncConnection
from silkline.frontier.dead_letters import DeadCount, DeadGroup, GroupedBy
from silkline.frontier.demand import Demand
from silkline.frontier.effects import Disk, Flow, Scan, Stream, ask
from silkline.frontier.embedded import EmbeddedServer
from silkline.frontier.facts import Facts
from silkline.frontier.flows import Settlement
from silkline.frontier.frontier import DEFAULT_LEASE, DEFAULT_LOCK, RECALL_EVERY
from silkline.frontier.fsck import Checkup
from silkline.frontier.history import Counts, Levels, Point, add_answers, add_history
from silkline.frontier.host_state import HostState
from silkline.frontier.inspection import Stats
from silkline.frontier.keys import CrawlKeys
from silkline.frontier.letters import DeadLetter
from silkline.frontier.overflow import Overflow, open_overflow
from silkline.frontier.plan import Plan
from silkline.frontier.robots_file import RobotsFile
from silkline.frontier.roster import DEFAULT_EXPIRY, Order, WorkerState
from silkline.frontier.sentences import Explanation
from silkline.frontier.server import Memory, check_server
from silkline.frontier.wishes import (
    DeadWishes,
    HostWishes,
    RetryWishes,
    Wishes,
    as_batch,
    claim_terms,
    crawl_defaults,
    dead_filter,
    embedded_in,
    lease_ms,
    policy_words,
    read_wishes,
)

R = TypeVar("R")


class SyncFrontier:
    """One crawl's requests on Redis or Valkey. `Frontier` tells what each method promises."""

    def __init__(
        self,
        connection: SyncConnection,
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
        self._bell = SyncBell(connection, plan, self._lookout)
        self._next_recall = 0.0
        self._embedded: EmbeddedServer | None = None
        self.url: str | None = None

    @classmethod
    def open(
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
        keys = CrawlKeys(crawl)
        lease_ms(lease)
        settings = read_wishes(wishes)
        embedded = EmbeddedServer.join(directory) if (directory := embedded_in(url)) else None
        connection = None
        try:
            target = read_url(embedded.url if embedded else str(url))
            connection = SyncConnection(target, clock, embedded.ensure if embedded else None)
            connection.start()
            check_server(connection.server, connection.target.public)
            defaults = crawl_defaults(cluster=connection.target.kind == "cluster")
            plan = drive(connection, flows.open_crawl(keys, settings, defaults, create=create))
            store = open_overflow(overflow)
        except BaseException:
            if connection:
                connection.close()
            if embedded:
                embedded.leave()
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
        return self._plan

    def enqueue(self, requests: Iterable[str | Request] | str | Request, *, spill: bool = False) -> Admissions:
        return self._run(flows.enqueue(self._plan, as_batch(requests), self._overflow if spill else None))

    def claim(self, n: int = 1, *, wait: float = 0.0, lease: float | None = None, slack: float = 0.0) -> list[Lease]:
        terms = claim_terms(n, wait, self._lease_ms if lease is None else lease_ms(lease), slack)
        deadline = time.monotonic() + wait
        if wait == 0:
            self._lookout.forget()
        while True:
            if wait > 0:
                self._bell.listen()
            self._recall()
            looked = time.monotonic()
            leases = self._run(flows.claim(self._plan, self._lookout, n, terms, time.monotonic))
            if leases or time.monotonic() >= deadline:
                self._lookout.found()
                return leases
            self._bell.wait(looked, min(deadline, self._next_recall) if self._overflow else deadline)

    def extend(self, leases: Sequence[Lease], *, lease: float | None = None) -> list[Lease]:
        if not leases:
            return []
        duration = self._lease_ms if lease is None else lease_ms(lease)
        _, lost = self._run(flows.extend(self._plan, leases, duration))
        return lost

    def vacate(self, leases: Sequence[Lease]) -> list[Lease]:
        return self._run(flows.vacate(self._plan, leases)) if leases else []

    def complete(self, lease: Lease, links: Sequence[str | Request] = ()) -> Settlement:
        return self._settle_one(lease, Complete(links))

    def retry(self, lease: Lease, after: float = 0.0, **how: Unpack[RetryWishes]) -> Settlement:
        return self._settle_one(lease, RetryIn(after, **how))

    def release(self, lease: Lease, after: float = 0.0) -> Settlement:
        return self._settle_one(lease, Release(after))

    def bury(self, lease: Lease, reason: str, status: int | None = None) -> Settlement:
        return self._settle_one(lease, Bury(reason, status))

    def _settle_one(self, lease: Lease, verdict: Verdict) -> Settlement:
        outcome = self.settle([(lease, verdict)])
        if outcome.lost:
            raise LeaseLost(outcome.lost)
        return outcome

    def settle(self, verdicts: Iterable[tuple[Lease, Verdict]]) -> Settlement:
        return self._run(flows.settle(self._plan, list(verdicts), self._now, self._overflow))

    def dead(self, *, limit: int = 100, newest: int | None = None, **which: Unpack[DeadWishes]) -> list[DeadLetter]:
        return self._run(dead_letters.dead(self._plan, dead_filter(which, self._now()), limit, newest))

    def dead_groups(self, by: GroupedBy = "reason", *, limit: int = 20, name: str | None = None) -> list[DeadGroup]:
        return self._run(dead_letters.dead_groups(self._plan, by, limit, name))

    def count_dead(self, **which: Unpack[DeadWishes]) -> DeadCount:
        return self._run(dead_letters.count_dead(self._plan, dead_filter(which, self._now())))

    def revive(self, **which: Unpack[DeadWishes]) -> int:
        return self._run(dead_letters.end_dead(self._plan, dead_filter(which, self._now()), purge=False))

    def purge(self, **which: Unpack[DeadWishes]) -> int:
        return self._run(dead_letters.end_dead(self._plan, dead_filter(which, self._now()), purge=True))

    def forget(self, requests: Iterable[str | Request] | str | Request) -> int:
        return self._run(inspection.forget(self._plan, as_batch(requests)))

    def mark_seen(self, identities: Iterable[bytes]) -> None:
        self._run(admitting.mark_seen(self._plan, list(identities)))

    def explain(
        self,
        request: str | Request,
        *,
        agent: str | None = None,
        attempts: int | None = None,
        identities: Sequence[bytes] = (),
    ) -> Explanation:
        return self._run(explaining.explain(self._plan, request, self._now(), agent, attempts, identities))

    def note_act(self, by: str, what: str, about: str = "") -> None:
        self._run(ask(acts.note_act(self._plan.keys.audit, by, what, about)))

    def audit(self, *, limit: int = 100) -> list[Act]:
        return self._run(ask(acts.audit(self._plan.keys.audit, limit)))

    def pause(self, host: str | None = None) -> None:
        if host is None:
            self._run(flows.set_state(self._plan, "paused"))
        else:
            self.set_host(host, paused=True)

    def resume(self, host: str | None = None) -> None:
        if host is None:
            self._run(flows.set_state(self._plan, "open"))
        else:
            self.set_host(host, paused=False)

    def cancel(self, host: str | None = None) -> int:
        if host is None:
            return self._run(flows.cancel(self._plan))
        return self._run(flows.discard(self._plan.shard_of(host), host))

    def remove(self) -> None:
        self._run(removal.remove(self._plan, self._overflow))

    def set_host(self, host: str, **pace: Unpack[HostWishes]) -> HostState:
        words = policy_words(pace)
        self._run(ask(commands.set_policy(self._plan.shard_of(host), host, words)))
        return self._run(inspection.host_state(self._plan, host))

    def set_politeness(self, politeness: Politeness) -> None:
        self._plan = self._run(flows.set_politeness(self._plan, politeness))

    def robots(self, url: str, *, lock: float = DEFAULT_LOCK, lease: Lease | None = None) -> RobotsFile:
        return self._run(robots.robots(self._plan, url, lock, lease))

    def keep_robots(
        self, url: str, text: bytes | None, *, fresh: float = FRESH, crawl_delay: float | None = None
    ) -> bool:
        return self._run(robots.keep_robots(self._plan, url, text, fresh, crawl_delay))

    def hosts(self, *named: str, limit: int = 100) -> list[HostState]:
        return self._run(inspection.hosts(self._plan, limit, named))

    def join(self, worker: str, *, info: Mapping[str, Any] | None = None, expires: float = DEFAULT_EXPIRY) -> int:
        return self._run(ask(roster.join(self._plan.keys, worker, expires, info)))

    def leave(self, worker: str, *, shut: bool = False) -> int:
        return self._run(ask(roster.leave(self._plan.keys, worker, shut=shut)))

    def workers(self, *, limit: int = 100) -> list[WorkerState]:
        return self._run(ask(roster.workers(self._plan.keys, limit)))

    def order(self, worker: str, order: Order) -> bool:
        answer = self._run(ask(roster.order(self._plan.keys, worker, roster.check_order(order))))
        return answer != "unknown"

    def ordered(self, worker: str) -> Order:
        answer: Any = self._run(ask(roster.order(self._plan.keys, worker, "")))
        return "work" if answer == "unknown" else answer

    def add_history(self, counts: Counts, levels: Levels | None = None) -> None:
        self._run(ask(add_history(self._plan.keys, counts, levels)))

    def add_answers(self, answers: Mapping[str, Answers]) -> None:
        self._run(add_answers(self._plan, answers))

    def history(self, *, since: float = 3600.0, step: float | None = None) -> list[Point]:
        return self._run(history.history(self._plan, since, step))

    def demand(self) -> Demand:
        return self._run(demand.demand(self._plan))

    def fsck(self, *, repair: bool = False) -> Checkup:
        return self._run(fsck.fsck(self._plan, repair=repair))

    def facts(self) -> list[Facts]:
        return self._connection.examine()

    def memory(self) -> Memory:
        return self._connection.memory()

    @property
    def timings(self) -> dict[str, Timing]:
        return self._connection.timings

    def stats(self) -> Stats:
        return self._run(inspection.stats(self._plan))

    def finished(self) -> bool:
        return self._run(inspection.finished(self._plan))

    def close(self) -> None:
        self._bell.stop()
        if self._overflow:
            self._overflow.close()
        self._connection.close()
        if self._embedded:
            self._embedded.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _recall(self) -> None:
        if self._overflow and time.monotonic() >= self._next_recall:
            returned, again = self._run(flows.recall(self._plan, self._overflow))
            if returned:
                self._lookout.forget()
            self._next_recall = time.monotonic() + (0 if again else RECALL_EVERY)

    def _now(self) -> float:
        return time.time() if self._clock is None else self._clock() / 1000

    def _run(self, flow: Flow[R]) -> R:
        return drive(self._connection, flow)


def drive(connection: SyncConnection, flow: Flow[R]) -> R:
    """Send what the flow yields and hand it the answers."""
    answer: Any = None
    error: Exception | None = None
    while True:
        try:
            effect = flow.throw(error) if error else flow.send(answer)
        except StopIteration as stop:
            result: R = stop.value
            return result
        answer, error = None, None
        try:
            if isinstance(effect, Command):
                answer = connection.call(effect)
            elif isinstance(effect, Stream):
                answer = connection.call_stream(effect.commands)
            elif isinstance(effect, Scan):
                answer = connection.scan(effect.match, effect.position)
            elif isinstance(effect, Disk):
                answer = effect.run()
            else:
                answer = connection.call_all(effect)
        except Exception as raised:  # noqa: BLE001 - the flow decides, and raises it again if it has no answer
            error = raised
