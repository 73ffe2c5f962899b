"""Presence: a worker tells its crawl that it is there and what it does, every few seconds, and hears what it is to do.

What it did goes into the crawl's history, and what hosts answered beside it; what it is doing into the roster, where operators
see it and leave their orders.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import resource
import secrets
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from silkline.core.errors import SilklineError
from silkline.frontier.frontier import Frontier
from silkline.frontier.history import Counts, Levels, coarse_counts
from silkline.frontier.inspection import Stats
from silkline.frontier.roster import Order
from silkline.worker.answers import HostAnswers
from silkline.worker.tally import Tally

log = logging.getLogger(__name__)

EVERY = 5.0
FAREWELL = 3.0
"""Seconds that saying goodbye may take: a server that is gone hears nothing."""
URL_CHARACTERS, URLS_CHARACTERS = 200, 6_000
"""What is told of the pages under way: so much of each address, and of all together."""


class Present(Protocol):
    """Who can be on a roster: a `Worker`, or a process of Scrapy."""

    @property
    def counts(self) -> Counts:
        """What it has done so far."""

    @property
    def answers(self) -> HostAnswers:
        """What hosts answered since it was told last."""

    @property
    def doing(self) -> str:
        """In a word: working, quiet or stopping."""

    @property
    def stall(self) -> str | None:
        """Why nothing is done though it should be, in words."""

    @property
    def concurrency(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def urls(self) -> list[str]:
        """The pages under way, the oldest first."""

    def obey(self, order: Order) -> None:
        """Do what an operator has ordered. Told at every beat, whether it is new or not."""


class Presence:
    """Speaks for one worker; *more* is told of it every time."""

    def __init__(
        self, worker: Present, frontier: Frontier, name: str | None = None, more: Mapping[str, Any] | None = None
    ) -> None:
        self._worker = worker
        self._frontier = frontier
        self._more = more or {}
        self.silent = False
        """While it is set nothing is told, so that the worker is taken for lost."""
        self._told = Counts()
        self._beat = (time.monotonic(), 0)
        self._unheard = False
        self._leaving = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.name = name or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(2)}"

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        """A beat that fails is made up for by the next: what is not told yet is told then."""
        while not self._leaving.is_set():
            if not self.silent:
                await self._try_beat()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), EVERY)

    async def _try_beat(self) -> None:
        try:
            await self.beat()
        except SilklineError as error:
            self._complain(error)
        else:
            self._take_back()

    def _complain(self, error: SilklineError) -> None:
        """Once: operators who look at the roster are misled until it works again."""
        if not self._unheard:
            log.warning("the crawl cannot be told how this worker does, and orders do not reach it: %s", error)
        self._unheard = True

    def _take_back(self) -> None:
        if self._unheard:
            log.warning("the crawl is told again how this worker does")
        self._unheard = False

    async def beat(self) -> None:
        others = await self._frontier.join(self.name, info=self._info())
        self._worker.obey(await self._frontier.ordered(self.name))
        await self._tell(look=random.random() * (others + 1) < 1)  # one of the fleet looks, on average

    async def leave(self) -> None:
        """Tell the rest, and that this worker is gone."""
        with suppress(SilklineError, TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await self.tell_rest()
                await self._frontier.leave(self.name)

    async def tell_rest(self) -> None:
        """The last word. A beat under way is waited for, so that nothing is told twice."""
        self._leaving.set()
        if self._task:
            await self._task
        await self._tell(look=True)

    def stop(self) -> None:
        """Without a last word."""
        self._leaving.set()
        if self._task:
            self._task.cancel()

    async def _tell(self, *, look: bool) -> None:
        counts = self._worker.counts
        levels = levels_of(await self._frontier.stats()) if look else None
        await self._frontier.add_history(counts.minus(self._told), levels)
        self._told = counts
        if answers := self._worker.answers.take():
            await self._frontier.add_answers(answers)  # what does not arrive is forgotten: it is a picture, no account

    def _info(self) -> dict[str, Any]:
        worker, counts, now = self._worker, self._worker.counts, time.monotonic()
        then, before = self._beat
        self._beat = now, counts.pages
        return {
            **this_process(),
            **self._more,
            "state": worker.doing,
            "trouble": (worker.stall or "")[:300],
            "concurrency": worker.concurrency,
            "in_flight": worker.in_flight,
            "pages": counts.pages,
            "items": counts.items,
            "errors": counts.errors,
            "rate": round((counts.pages - before) / (now - then), 2) if now > then else 0.0,
            "urls": few_urls(worker.urls),
        }


def this_process() -> dict[str, Any]:
    """What is to be known of any process that works on a crawl."""
    return {
        "version": _version(),
        "host": socket.gethostname()[:100],
        "pid": os.getpid(),
        "memory": memory_used(),
    }


@cache
def _version() -> str:
    try:
        return version("silkline")
    except PackageNotFoundError:  # it runs out of a source tree
        return "unknown"


def counts_of(tally: Tally) -> Counts:
    """What of a tally goes into the history."""
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
    )
    return Counts(
        **{name: getattr(tally, name) for name in same},
        errors=sum(tally.errors.values()),
        fetched=tally.latency.count,
        fetch_ms=round(tally.latency.seconds * 1000),
        busy_ms=round(tally.busy_seconds * 1000),
        **{f"status_{kind}xx": count for kind, count in tally.status_classes.items() if 1 <= kind <= 5},
        **coarse_counts(tally.latency),
    )


def levels_of(stats: Stats) -> Levels:
    return Levels(**{name: getattr(stats, name) for name in Levels.__struct_fields__})


def few_urls(urls: list[str]) -> list[str]:
    """As many as people care to read, and as there is room for."""
    told, room = [], URLS_CHARACTERS
    for url in urls:
        text = url[:URL_CHARACTERS]
        room -= len(text.encode()) + 3
        if room < 0:
            break
        told.append(text)
    return told


def memory_used() -> int:
    """Bytes of memory that this process has: now, where the system tells, else at most."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
