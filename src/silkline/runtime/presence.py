"""Presence: every few seconds, a worker reports its state to the crawl and reads the orders of operators.

Its counts go into the history of the crawl, the statuses of hosts beside them, and its state into the roster of workers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

import msgspec

from silkline.errors import DamagedCrawl, SilklineError, StoreUnavailable
from silkline.frontier.admin_verbs.stats import levels_of
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.history import Counts, HandlerCounts, Levels, coarse_counts
from silkline.frontier.verbs.workers import WorkerOrder
from silkline.runtime.counters import Counters, HostStatuses
from silkline.runtime.memory import peak_memory, used_memory

log = logging.getLogger(__name__)

EVERY = 5.0
FAREWELL = 3.0
"""Seconds that leaving may take if the server does not reply."""
URL_CHARACTERS, URLS_CHARACTERS = 200, 4_500
"""The characters of each URL in progress that are reported, and of all of them together."""
TASKS_CHARACTERS = 1_500
"""The characters of what is reported of all tasks."""
NAMES_CHARACTERS, MOST_NEEDS = 1_000, 3
"""The characters of all names of handlers, and the number of needs, that are reported."""


class ReportedWorker(Protocol):
    """What `Presence` needs of a process: a `Worker`, or a process of Scrapy."""

    @property
    def counts(self) -> Counts:
        """Its counts so far."""

    @property
    def handlers(self) -> Mapping[str, HandlerCounts]:
        """Its counts so far, by handler."""

    @property
    def host_statuses(self) -> HostStatuses:
        """The response statuses of hosts since the last report."""

    @property
    def doing(self) -> str:
        """The state of the process: working, quiet or stopping."""

    @property
    def stall(self) -> str | None:
        """Why it makes no progress, as text; None if it does."""

    @property
    def concurrency(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def urls(self) -> list[str]:
        """The pages in progress, the oldest first."""

    def obey(self, order: WorkerOrder) -> None:
        """Carry out the order of an operator. Called at every report, whether the order is new or not."""

    def stop(self) -> None:
        """Claim nothing more, and end."""


class Orders:
    """Carries out the orders of an operator: claim nothing more (quiet), work again, or stop.

    *changed* is called after the process became quiet or works again; `quiet` says which. *stop* ends the process.
    """

    def __init__(self, changed: Callable[[], None], stop: Callable[[], None]) -> None:
        self._changed = changed
        self._stop = stop
        self.quiet = False
        """Whether nothing may be claimed."""
        self.stopped = False
        """Whether an operator has ordered the process to stop."""

    def obey(self, order: WorkerOrder) -> None:
        """Carry out an order. The same order may come again and again; only a new one has an effect."""
        if self.stopped:
            return
        if order == "stop":
            log.warning("stopping, as an operator has ordered")
            self.stopped = True
            self._stop()
        elif self.quiet != (order == "quiet"):
            self.quiet = order == "quiet"
            log.warning("%s, as an operator has ordered", "claiming nothing more" if self.quiet else "working again")
            self._changed()


async def _nothing() -> None:
    """Do nothing at a report."""


class Presence:
    """Reports for one worker. *more* returns further fields of the report; *on_beat* is awaited at each report."""

    def __init__(
        self,
        worker: ReportedWorker,
        frontier: Frontier,
        name: str | None = None,
        more: Callable[[], Mapping[str, Any]] = dict,
        on_beat: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        self._worker = worker
        self._frontier = frontier
        self._more = more
        self._on_beat = on_beat
        self.damage: DamagedCrawl | None = None
        """The damage of the crawl on the server, if a report has found any."""
        self.others = 0
        """The number of other workers at the last report."""
        self.silent = False
        """While this is True, nothing is reported, so that the worker counts as lost."""
        self._reported, self._reported_waits = Counts(), Counts()
        self._reported_handlers: dict[str, tuple[int, ...]] = {}
        self._beat = (time.monotonic(), 0)
        self._failing = False
        self._leaving = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.name = name or new_worker_name()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    def move(self, frontier: Frontier) -> None:
        """Report to another crawl from now on."""
        self._frontier = frontier
        self._reported_waits = Counts()

    async def _run(self) -> None:
        """Report until the worker leaves. What a failed report did not store is stored by the next one."""
        while not self._leaving.is_set():
            if not self.silent:
                await self._try_beat()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), EVERY)

    async def _try_beat(self) -> None:
        try:
            await self.beat()
        except DamagedCrawl as error:
            self._note_failure(error)
            self.damage = error
            self._worker.stop()
        except SilklineError as error:
            self._note_failure(error)
        else:
            self._note_success()

    def _note_failure(self, error: SilklineError) -> None:
        """Log the first error: until the next success, the roster shows operators an old state."""
        if not self._failing:
            away = isinstance(error, StoreUnavailable)  # which the connection has logged, once
            log.log(
                logging.DEBUG if away else logging.WARNING,
                "this worker cannot report its status and receives no orders: %s",
                error,
            )
        self._failing = True

    def _note_success(self) -> None:
        if self._failing:
            log.info("this worker reports its status again")
        self._failing = False

    async def beat(self) -> None:
        self.others = others = await self._frontier.internal.join(self.name, info=self._info())
        self._worker.obey(await self._frontier.internal.ordered(self.name))
        await self._frontier.refresh()  # an operator may have changed the politeness or the budget
        await self._on_beat()
        await self._report(
            look=random.random() * (others + 1) < 1
        )  # one worker of the fleet reads the stats, on average

    async def leave(self) -> None:
        """Store the last counts, and remove the worker from the roster."""
        with suppress(SilklineError, TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await self.report_rest()
                await self._frontier.internal.leave(self.name)

    async def report_rest(self) -> None:
        """Store the last counts, after a report in progress has ended, so that nothing is counted twice."""
        self._leaving.set()
        if self._task:
            await self._task
        await self._report(look=True)

    def stop(self) -> None:
        """Stop reporting, without storing the last counts."""
        self._leaving.set()
        if self._task:
            self._task.cancel()

    async def _report(self, *, look: bool) -> None:
        levels = await self._levels() if look else None
        counts, by_handler = self._worker.counts, {name: one.numbers for name, one in self._worker.handlers.items()}
        news = _news(by_handler, self._reported_handlers)
        waits = self._frontier.internal.waits
        more = counts.minus(self._reported).add(waits.minus(self._reported_waits))
        await self._frontier.internal.add_history(more, levels, news)
        self._reported, self._reported_waits, self._reported_handlers = counts, waits, by_handler
        if counts_by_host := self._worker.host_statuses.take():
            await self._frontier.internal.add_answers(
                counts_by_host
            )  # what is not stored is dropped: these are samples

    async def _levels(self) -> Levels:
        return levels_of(await self._frontier.admin.stats(), (await self._frontier.internal.memory()).used)

    def _info(self) -> dict[str, Any]:
        worker, counts, now = self._worker, self._worker.counts, time.monotonic()
        then, before = self._beat
        more = dict(self._more())
        trouble = worker.stall or more.pop("trouble", "")
        self._beat = now, counts.pages
        return {
            **this_process(),
            **more,
            "state": worker.doing,
            "trouble": trouble[:300],
            "concurrency": worker.concurrency,
            "in_flight": worker.in_flight,
            "pages": counts.pages,
            "items": counts.items,
            "errors": counts.errors,
            "rate": round((counts.pages - before) / (now - then), 2) if now > then else 0.0,
            "urls": few_urls(worker.urls),
        }


def new_worker_name() -> str:
    """Return a name for this process on the roster of a crawl."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(2)}"


def this_process() -> dict[str, Any]:
    """Return the fields that every process on the roster has."""
    return {
        "version": installed_version(),
        "host": socket.gethostname()[:100],
        "pid": os.getpid(),
        "memory": used_memory() or peak_memory(),
    }


@cache
def installed_version() -> str:
    """Return the version of Silkline; ``unknown`` if it runs from a source tree."""
    try:
        return version("silkline")
    except PackageNotFoundError:
        return "unknown"


def counts_of(counters: Counters) -> Counts:
    """Return the counters that go into the history."""
    same = (
        "pages",
        "items",
        "bytes",
        "links",
        "ended",
        "retried",
        "buried",
        "lost",
        "missed",
        "dropped",
        "robots_denied",
        "revisited",
        "not_modified",
        "unchanged",
    )
    return Counts(
        **{name: getattr(counters, name) for name in same},
        errors=sum(counters.errors.values()),
        fetched=counters.latency.count,
        fetch_ms=round(counters.latency.seconds * 1000),
        busy_ms=round(counters.busy_seconds * 1000),
        **{f"status_{kind}xx": count for kind, count in counters.status_classes.items() if 1 <= kind <= 5},
        **coarse_counts(counters.latency),
    )


def _news(now: Mapping[str, tuple[int, ...]], before: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return by how much the counts of handlers have grown, for those that have."""
    grown = {
        name: tuple(new - old for new, old in zip(numbers, before.get(name, (0,) * len(numbers)), strict=True))
        for name, numbers in now.items()
    }
    return {name: numbers for name, numbers in grown.items() if any(numbers)}


def few_urls(urls: list[str]) -> list[str]:
    """Return as many URLs as there is room for, each shortened."""
    shown, room = [], URLS_CHARACTERS
    for url in urls:
        text = url[:URL_CHARACTERS]
        room -= len(text.encode()) + 3
        if room < 0:
            break
        shown.append(text)
    return shown


def few_names(names: Sequence[str]) -> list[str]:
    """Return all names of handlers, or none if there is no room for all: some of them would mislead."""
    return list(names) if sum(len(name.encode()) + 3 for name in names) <= NAMES_CHARACTERS else []


def few_tasks(reports: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return what is reported of tasks, as far as there is room: recurring ones first."""
    shown, room = {}, TASKS_CHARACTERS
    for name, report in sorted(reports.items(), key=lambda one: -len(one[1])):
        room -= len(msgspec.json.encode({name: report}))
        if room < 0:
            break
        shown[name] = report
    return shown
