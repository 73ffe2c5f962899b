"""``silkline run --every``: run a crawl as a whole again and again, with at most one run at a time in the fleet.

Each run is a request of a crawl of its schedule, and the process that runs it holds its lease. So a run is claimed once, is taken over when its
process dies, and does not begin while the one before it is in progress. The run itself is the crawl; its audit log says which run it is.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from typing import NamedTuple

import xxhash

from silkline.core.lease import Lease
from silkline.core.politeness import Politeness
from silkline.core.request import Request
from silkline.core.units import parse_duration
from silkline.errors import ConfigError, LeaseLost, SilklineError, StoreUnavailable, UnknownCrawl
from silkline.frontier.frontier import Frontier
from silkline.runtime.presence import EVERY as REPORT_EVERY
from silkline.runtime.presence import FAREWELL, Orders, new_worker_name, this_process

HOST, STARTED = "run", "start run"
"""The host of the requests, and the action in the audit log of the crawl."""
SHORTEST = 1.0
LEASE, EXTEND_EVERY, LOOK_EVERY = 15.0, 3.0, 1.0
AUDITED = 1_000
LONGEST_NAME = 64
"""Characters of the name of a crawl."""


class Turn(NamedTuple):
    """A run that this process has claimed: its name, and whether it begins afresh or continues the crawl as it is."""

    name: str
    lease: Lease
    is_fresh: bool


def read_interval(text: str) -> float:
    """Return the seconds of ``--every``. Raises `ConfigError` if it is not an interval."""
    seconds = parse_duration(text)
    if seconds is None or not seconds >= SHORTEST or seconds % 1:
        raise ConfigError(f'--every must be an interval of whole seconds, such as 30m, 1h or 7d, got "{text:.50}"')
    return seconds


def schedule_name(crawl: str) -> str:
    """Return the name of the crawl that has the schedule of *crawl*. Long names that begin alike have different ones."""
    name = f"{crawl}.runs"
    return name if len(name) <= LONGEST_NAME else f"{crawl[:42]}-{xxhash.xxh3_64_hexdigest(crawl.encode())}.runs"


async def last_run(redis: str, crawl: str) -> str:
    """Return the name of the run that the crawl is, or was last; empty if it was started in another way, or does not exist."""
    try:
        async with await Frontier.open(redis, crawl=crawl, create=False) as frontier:
            entries = await frontier.admin.audit(limit=AUDITED)
    except UnknownCrawl:
        return ""
    return next((entry.about for entry in entries if entry.what == STARTED), "")


async def may_be_deleted(redis: str, crawl: str) -> bool:
    """Return whether the next run may delete the crawl: it does not exist, or is a run of the schedule.

    A run has no entry in the audit log when it has just been created. So whether one is in progress is read before the log.
    """
    return await _leased(redis, crawl) is None or bool(
        await _leased(redis, schedule_name(crawl)) or await last_run(redis, crawl)
    )


async def _leased(redis: str, crawl: str) -> int | None:
    """Return how many requests of a crawl are leased; None if it does not exist."""
    try:
        async with await Frontier.open(redis, crawl=crawl, create=False) as frontier:
            return (await frontier.admin.stats()).leased
    except UnknownCrawl:
        return None


def _due_of(name: str) -> float:
    return datetime.fromisoformat(name).timestamp() if name else 0.0


def next_due(newest: float, now: float, every: float, *, catch_up: bool) -> float:
    """Return when the next run is due, after that of *newest*; 0 if that is still to come.

    Of runs that were missed, one is made up for with *catch_up*, else none.
    """
    if not newest:
        return float(int(now))
    if newest >= now:
        return 0.0
    passed = int((now - newest) // every)
    return newest + every * (max(passed, 1) if catch_up else passed + 1)


class RunSchedule:
    """The schedule of a crawl, which all processes with ``--every`` share."""

    def __init__(self, frontier: Frontier, redis: str, crawl: str, every: float) -> None:
        self._frontier = frontier
        self._redis = redis
        self._crawl = crawl
        self._every = every
        self._catch_up = True
        self._orders = Orders(lambda: None, lambda: self.stop(signal.SIGTERM))
        self.stop_signal: signal.Signals | None = None
        """The first signal that came while no workers were running."""

    @classmethod
    @asynccontextmanager
    async def open(cls, redis: str, crawl: str, every: float) -> AsyncIterator[RunSchedule]:
        pace = Politeness(delay=0, concurrency=1)
        async with await Frontier.open(redis, crawl=schedule_name(crawl), politeness=pace, lease=LEASE) as frontier:
            schedule = cls(frontier, redis, crawl, every)
            with schedule._listening():
                async with schedule._present():
                    yield schedule

    async def next_turn(self) -> Turn | None:
        """Wait for the next run and claim it. Returns None after SIGINT or SIGTERM."""
        while not self._is_stopped():
            if self._orders.quiet:
                await asyncio.sleep(LOOK_EVERY)
                continue
            try:
                await self._offer()
                for lease in await self._frontier.claim(1, wait=LOOK_EVERY):
                    turn = await self._turn(lease)
                    if turn and self._is_stopped():  # the signal came while the run was claimed
                        await self._frontier.release(lease)
                    elif turn:
                        self._catch_up = False
                        return turn
            except (StoreUnavailable, LeaseLost):  # a run that was claimed comes again when its lease has expired
                await asyncio.sleep(LOOK_EVERY)
        return None

    async def _offer(self) -> None:
        """Enqueue the next run, unless one waits or is in progress."""
        stats = await self._frontier.admin.stats()
        if stats.pending or stats.leased:
            return
        schedule = f"every {self._every:g}"
        known = await self._frontier.internal.tick(_request(0.0), schedule)
        due = next_due(known.newest, known.now, self._every, catch_up=self._catch_up)
        self._catch_up = False
        if due:
            await self._frontier.internal.tick(_request(due), schedule)

    async def _turn(self, lease: Lease) -> Turn | None:
        """Return the run of a lease; None for one that two processes have enqueued at the same time."""
        name = lease.url.rpartition("/")[2]
        last = await last_run(self._redis, self._crawl)
        if name != last and 0 <= _due_of(name) - _due_of(last) < min(self._every / 2, 60.0):
            await self._frontier.complete(lease)
            return None
        return Turn(name, lease, is_fresh=name != last)

    @asynccontextmanager
    async def _present(self) -> AsyncIterator[None]:
        """Report this process as a worker of the schedule, which would count as idle without one."""
        name, leaving = new_worker_name(), asyncio.Event()
        task = asyncio.create_task(self._report(name, leaving))
        try:
            yield
        finally:
            leaving.set()
            with suppress(SilklineError, TimeoutError):
                async with asyncio.timeout(FAREWELL):
                    await task  # else its last report might come after it has left
                    await self._frontier.internal.leave(name)

    async def _report(self, name: str, leaving: asyncio.Event) -> None:
        while not leaving.is_set():
            with suppress(SilklineError):
                await self._frontier.internal.join(
                    name, info={**this_process(), "state": self._state, "concurrency": 1}
                )
                self._orders.obey(await self._frontier.internal.ordered(name))
            with suppress(TimeoutError):
                await asyncio.wait_for(leaving.wait(), REPORT_EVERY)

    @property
    def _state(self) -> str:
        return "stopping" if self._is_stopped() else "quiet" if self._orders.quiet else "working"

    @contextmanager
    def _listening(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop, signal.Signals(number))
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _is_stopped(self) -> bool:
        return self.stop_signal is not None

    def stop(self, number: signal.Signals) -> None:
        """Claim no further run."""
        self.stop_signal = self.stop_signal or number

    @asynccontextmanager
    async def held(self, turn: Turn, lost: Callable[[], None]) -> AsyncIterator[None]:
        """Keep the lease of a run. *lost* is called if another process has it now."""
        task = asyncio.create_task(self._extend(turn.lease, lost))
        try:
            yield
        finally:
            task.cancel()

    async def _extend(self, lease: Lease, lost: Callable[[], None]) -> None:
        while True:
            with suppress(StoreUnavailable):
                if await self._frontier.extend([lease]):
                    lost()
                    return
            await asyncio.sleep(EXTEND_EVERY)

    async def ended(self, turn: Turn, *, is_done: bool) -> None:
        """Complete a run, or leave the rest of it to the next process."""
        end: Awaitable[object] = (
            self._frontier.complete(turn.lease)
            if is_done
            else self._frontier.retry(turn.lease, 0.0, reason="stopped before its end")
        )
        with suppress(LeaseLost):
            await end


def _request(due: float) -> Request:
    name = datetime.fromtimestamp(due, UTC).isoformat() if due else "next"
    return Request(f"https://{HOST}/{name}", not_before=due or None)
