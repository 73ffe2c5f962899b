"""Tasks: the tasks of one application, and the connections on which they are enqueued.

::

    app = Tasks("reports")

    @app.task(concurrency=4, rate="10/s", retries=[1, 10, 60])
    async def resize(sku: str, size: int = 3) -> str: ...

    handle = await resize.enqueue(sku="a")
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol, Self, overload
from weakref import WeakKeyDictionary

from silkline.core.politeness import MAX_CONCURRENCY, Politeness
from silkline.core.request import Request
from silkline.core.retries import Backoff, Retries
from silkline.core.verdict import KEEP_RESULT
from silkline.errors import ConfigError, RequestError, UnknownCrawl
from silkline.frontier.arguments import CrawlArguments
from silkline.frontier.frontier import DEFAULT_LEASE, Frontier
from silkline.frontier.store.keys import CrawlKeys
from silkline.frontier.sync import SyncFrontier
from silkline.tasks.calls import CallArgs, R, TaskCalls, TaskHandle
from silkline.tasks.groups import CallGroup
from silkline.tasks.progress import report_progress
from silkline.tasks.spec import DEFAULT_TIMEOUT, CallOptions, TaskSpec
from silkline.tasks.sync_calls import SyncTaskCalls, SyncTaskHandle
from silkline.tasks.sync_groups import SyncCallGroup

SERVER_VARIABLE = "SILKLINE_REDIS"
"""The environment variable with the address of the server, as for the command line."""
NO_LIMITS = Politeness(delay=0, concurrency=MAX_CONCURRENCY)


class Task(TaskCalls[CallArgs, R]):
    """A task: call it to run its function here, or `enqueue` it for a worker."""

    def __init__(self, spec: TaskSpec, app: Tasks, options: CallOptions | None = None) -> None:
        super().__init__(spec, app.frontier, options)
        self.__doc__ = spec.function.__doc__
        self.__name__ = spec.name
        self.__wrapped__ = spec.function
        self.spec = spec
        """Its function and limits."""
        self.app = app
        """The application that it belongs to."""

    def __repr__(self) -> str:
        return f"<Task {self.spec.name!r} of {self.app.name!r}>"

    def __call__(self, *args: CallArgs.args, **kwargs: CallArgs.kwargs) -> Any:
        """Call the function itself, in this process. An async one returns a coroutine."""
        return self.spec.function(*args, **kwargs)

    def report_progress(self, done: float, note: str = "") -> None:
        """Report how far the call is that runs here, from 0 to 1, for `progress` of its handle.

        The worker sends it about once per second. Called elsewhere, it does nothing.
        """
        report_progress(done, note)

    @property
    def sync(self) -> SyncTaskCalls[CallArgs, R]:
        """The same methods without `await`, for plain code. Threads may share it."""
        return SyncTaskCalls(self.spec, self.app.sync_frontier, self._options)

    def options(  # noqa: PLR0913 - the settings of a call
        self,
        *,
        at: float | None = None,
        delay: float | None = None,
        priority: int = 0,
        unique: str | None = None,
        expires: float | None = None,
        after: TaskHandle[Any] | SyncTaskHandle[Any] | Iterable[TaskHandle[Any] | SyncTaskHandle[Any]] = (),
        group: CallGroup[Any] | SyncCallGroup[Any] | None = None,
        allow_failure: bool = False,
    ) -> Task[CallArgs, R]:
        """Return this task with options for its next calls.

        A call is not run before the unix time *at*, or for *delay* seconds. Calls with a higher *priority* (-1000 to 1000) are run
        first. Of all calls with the same *unique* key, only the first is enqueued, even after it has run. A call that is not
        started by the unix time *expires* becomes a dead letter.

        A call waits until all calls whose handles are in *after* have ended. If one of them has failed, it becomes a dead letter; with
        *allow_failure*, it runs. With a *group*, calls join that group, and its callback waits for them.
        """
        handles = tuple(after) if isinstance(after, Iterable) else (after,)
        options = CallOptions(
            at=at, delay=delay, priority=priority, unique=unique, expires=expires,
            after=handles, group=group, allow_failure=allow_failure,
        )  # fmt: skip
        options.urls_after(self.spec.queue)
        return Task(self.spec, self.app, options)

    def request(self, *args: CallArgs.args, **kwargs: CallArgs.kwargs) -> Request:
        """Return a call as a request. A handler of a crawl yields it, and it is enqueued when the page completes."""
        if self._options.after or self._options.group is not None:
            raise RequestError(
                f"{self.spec.name}() with after or group cannot be yielded as a request: await its enqueue()"
            )
        return self.spec.request(args, kwargs, self._options)


class Decorator(Protocol):
    """The decorator that `Tasks.task` returns."""

    @overload
    def __call__(self, function: Callable[CallArgs, Awaitable[R]]) -> Task[CallArgs, R]: ...
    @overload
    def __call__(self, function: Callable[CallArgs, R]) -> Task[CallArgs, R]: ...


class Tasks:
    """The tasks of one application: a queue with a *name*, and functions that its workers run.

    *redis* is the address of the server. Without it, the environment variable SILKLINE_REDIS is used, or else the embedded
    server in ``.silkline``. ``silkline worker FILE`` runs the tasks of a file.
    """

    def __init__(self, name: str, redis: str | None = None, *, capacity: int | None = None) -> None:
        CrawlKeys(name)  # raises ConfigError for an invalid name
        self.name = name
        self.redis = redis
        self._capacity = capacity
        self.by_name: dict[str, TaskSpec] = {}
        """The tasks by their names. Only these are run."""
        self._frontiers: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Future[Frontier]] = WeakKeyDictionary()
        self._sync_frontier: SyncFrontier | None = None
        self._lock = threading.Lock()
        self._frontier: Frontier | None = None
        self._used_sync: SyncFrontier | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"<Tasks {self.name!r}, {len(self.by_name)} tasks>"

    def __len__(self) -> int:
        return len(self.by_name)

    @property
    def names(self) -> list[str]:
        """The names of all registered tasks."""
        return list(self.by_name)

    @property
    def specs(self) -> list[TaskSpec]:
        """All registered tasks, with their limits."""
        return list(self.by_name.values())

    @property
    def are_recurring(self) -> bool:
        """Whether a task is recurring, so that there is always a next call."""
        return any(spec.schedule for spec in self.by_name.values())

    @property
    def longest(self) -> float:
        """The longest timeout of a task, in seconds; 0 without tasks."""
        return max((spec.timeout for spec in self.by_name.values()), default=0.0)

    @property
    def arguments(self) -> CrawlArguments:
        """The settings that the frontier stores."""
        if self._capacity is None:
            return {"politeness": NO_LIMITS}
        return {"politeness": NO_LIMITS, "capacity": self._capacity}

    def check(self) -> None:
        """Raise `ConfigError` if a task cannot be run."""
        for spec in self.by_name.values():
            spec.check()

    @overload
    def task(self, function: Callable[CallArgs, Awaitable[R]]) -> Task[CallArgs, R]: ...
    @overload
    def task(self, function: Callable[CallArgs, R]) -> Task[CallArgs, R]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        concurrency: int | None = None,
        rate: float | str | None = None,
        retries: Retries | Backoff | Sequence[float] | None = None,
        max_attempts: int | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        cpu: bool = False,
        keep: float = KEEP_RESULT,
        every: float | timedelta | None = None,
        cron: str | None = None,
        tz: str | None = None,
    ) -> Decorator: ...

    def task(  # noqa: PLR0913 - the settings of a task
        self,
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        concurrency: int | None = None,
        rate: float | str | None = None,
        retries: Retries | Backoff | Sequence[float] | None = None,
        max_attempts: int | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        cpu: bool = False,
        keep: float = KEEP_RESULT,
        every: float | timedelta | None = None,
        cron: str | None = None,
        tz: str | None = None,
    ) -> Any:
        """Register a function as a task, under its name unless *name* says another.

        All workers together run at most *concurrency* calls at a time, and start at most *rate* per second (a number, or text such as
        ``"100/m"``; at most 100,000 per second). A call that raises an exception is tried again after each of the *retries* in
        seconds, or *max_attempts* times with growing delays; then it becomes a dead letter. An attempt that takes longer than
        *timeout* seconds fails.

        An async function runs on the event loop of the worker, a plain one in a thread, and one with *cpu* in another
        process. What it returns is kept for *keep* seconds; with 0, it is not kept.

        With *every*, workers call it without arguments each time that unix time is a multiple of this number of seconds: once
        in all workers together. With *cron*, a line such as ``"*/5 9-17 * * mon-fri"``, they call it at these times in the time
        zone *tz*, such as ``"Europe/Berlin"``; UTC by default. A tick that came while no worker ran is run once, late.
        """

        def register(decorated: Callable[..., Any]) -> Task[Any, Any]:
            spec = TaskSpec(
                decorated, name, queue=self.name, concurrency=concurrency, rate=rate, retries=retries, max_attempts=max_attempts,
                timeout=timeout, cpu=cpu, keep=keep, every=every, cron=cron, tz=tz,
            )  # fmt: skip
            if spec.name in self.by_name:
                raise ConfigError(f"two tasks are named {spec.name!r}; rename one: @app.task(name=…)")
            self.by_name[spec.name] = spec
            return Task(spec, self)

        return register if function is None else register(function)

    # ── connections ──

    def use(self, frontier: Frontier | None, sync_frontier: SyncFrontier | None = None) -> None:
        """Enqueue calls through this frontier from now on, in its event loop; None returns to connections of their own.

        Plain code uses *sync_frontier*, or else a connection to the server of the frontier.
        """
        self._frontier, self._used_sync = frontier, sync_frontier
        self._loop = asyncio.get_running_loop() if frontier is not None and sync_frontier is None else None

    async def frontier(self) -> Frontier:
        """Return the frontier on which async code of this event loop enqueues calls, and open it if necessary."""
        loop = asyncio.get_running_loop()
        if self._frontier is not None and self._loop in (loop, None):
            return self._frontier
        opening = self._frontiers.get(loop)
        if opening is not None and _is_open(opening):
            return opening.result()
        if opening is None or opening.done():  # it has failed
            opening = self._frontiers[loop] = asyncio.ensure_future(self.open(self._address))
        return await asyncio.shield(opening)

    async def open(self, url: str | None, *, lease: float = DEFAULT_LEASE, client_name: str | None = None) -> Frontier:
        """Open the queue, or create it. An existing one keeps its settings, which an operator may have changed."""
        with suppress(UnknownCrawl):
            return await Frontier.open(url, crawl=self.name, create=False, lease=lease, client_name=client_name)
        return await Frontier.open(url, crawl=self.name, lease=lease, client_name=client_name, **self.arguments)

    def sync_frontier(self) -> SyncFrontier:
        """Return the frontier on which plain code enqueues calls, and open it if necessary. Threads share it."""
        if self._used_sync is not None:
            return self._used_sync
        with self._lock:
            if self._sync_frontier is None:
                self._sync_frontier = self._open_sync()
            return self._sync_frontier

    def _open_sync(self) -> SyncFrontier:
        with suppress(UnknownCrawl):
            return SyncFrontier.open(self._address, crawl=self.name, create=False)
        return SyncFrontier.open(self._address, crawl=self.name, **self.arguments)

    @property
    def _address(self) -> str | None:
        if self._frontier is not None:
            return self._frontier.url
        return self.redis or os.environ.get(SERVER_VARIABLE) or None

    async def close(self) -> None:
        """Close the connections of this event loop and of plain code. The next call opens others."""
        opening = self._frontiers.pop(asyncio.get_running_loop(), None)
        if opening is not None and (_is_open(opening) or not opening.done()):
            await (await opening).close()
        await asyncio.to_thread(self.close_sync)

    def close_sync(self) -> None:
        """Close the connection of plain code."""
        with self._lock:
            known, self._sync_frontier = self._sync_frontier, None
        if known is not None:
            known.close()

    async def __aenter__(self) -> Self:
        await self.frontier()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _is_open(opening: asyncio.Future[Frontier]) -> bool:
    """Return whether a frontier was opened, and opening it has not failed."""
    return opening.done() and not opening.cancelled() and opening.exception() is None


class CrawlTasks(Tasks):
    """The tasks of a crawl, which live in its frontier. It is created with the *settings* of the crawl."""

    def __init__(self, name: str, settings: Callable[[], CrawlArguments]) -> None:
        super().__init__(name)
        self._settings = settings

    @property
    def arguments(self) -> CrawlArguments:
        return self._settings()
