"""MemoryTasks: the queue of an application in memory, and its calls run in this process, for tests of code that uses tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar, cast

from silkline.core.lease import Lease
from silkline.core.verdict import Verdict
from silkline.errors import ConfigError
from silkline.frontier.frontier import Frontier
from silkline.frontier.sync import SyncFrontier
from silkline.runtime.counters import Counters
from silkline.tasks.app import NO_LIMITS, Tasks
from silkline.tasks.running import TaskRunner
from silkline.tasks.schedule import Ticker
from silkline.testing.clock import Clock
from silkline.testing.memory.frontier import MemoryFrontier
from silkline.worker.crawl.crawl import Crawl
from silkline.worker.failures import UnmetNeeds
from silkline.worker.task_attempt import TaskAttempt, TaskContext

T = TypeVar("T")

AT_ONCE = 100


class MemoryTasks:
    """Replaces the queue of *tasks*, or of the tasks of a crawl, by one in memory until the end of the block.

    ::

        async with MemoryTasks(app) as memory:
            handle = await resize.enqueue(sku="a")
            await memory.run()
            assert await handle.result() == "a.png"

    Calls run one after the other, without rates, and those with ``cpu=True`` in threads. Time stands still until a test
    advances `clock`: then `run` runs delayed calls, retries and ticks. It is a plain context manager, too, for code without `await`.
    """

    def __init__(self, tasks: Tasks | Crawl) -> None:
        self._tasks = tasks.tasks if isinstance(tasks, Crawl) else tasks
        self.clock = Clock(round(time.time() * 1000))
        settings = self._tasks.arguments
        settings["politeness"] = NO_LIMITS
        self.frontier = _finish(MemoryFrontier.open(crawl=self._tasks.name, clock=self.clock, **settings))
        """The queue."""

    async def run(self) -> int:
        """Run all calls that are due, and those that they enqueue. Returns how many attempts were made."""
        counters = Counters()
        context = TaskContext(cast("Frontier", self.frontier), counters, UnmetNeeds(counters), TaskRunner(processes=0))
        attempts = 0
        frontier = cast("Frontier", self.frontier)
        await Ticker(frontier, self._tasks.specs).enqueue_next()
        await frontier.internal.report_ended()
        while leases := await self.frontier.claim(AT_ONCE):
            for lease in leases:
                await self.frontier.settle([(lease, await self._attempt(lease, context))])
            attempts += len(leases)
        await context.close()
        return attempts

    async def _attempt(self, lease: Lease, context: TaskContext) -> Verdict:
        spec = self._tasks.by_name.get(lease.request.handler or "")
        if spec is None:
            raise ConfigError(f"{lease.url} is not a call of a task of {self._tasks.name!r}")
        return (await TaskAttempt(lease, spec, context).run()).verdict

    def __enter__(self) -> Self:
        sync = _WithoutAwait(self.frontier)
        self._tasks.use(cast("Frontier", self.frontier), cast("SyncFrontier", sync))
        return self

    def __exit__(self, *_: object) -> None:
        self._tasks.use(None)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self._tasks.use(None)


class _WithoutAwait:
    """The methods of a frontier in memory, of its admin and its internals, for plain code. They do not wait."""

    def __init__(self, methods: Any) -> None:
        self._methods = methods

    @property
    def admin(self) -> _WithoutAwait:
        return _WithoutAwait(self._methods.admin)

    @property
    def internal(self) -> _WithoutAwait:
        return _WithoutAwait(self._methods.internal)

    def result(self, request: str, *, wait: float = 0.0) -> Any:  # noqa: ARG002 - nothing runs meanwhile
        return _finish(self._methods.result(request))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._methods, name)
        if not callable(found):
            return found
        method: Callable[..., Coroutine[Any, Any, Any]] = found
        return lambda *args, **kwargs: _finish(method(*args, **kwargs))


def _finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that does not wait."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise ConfigError("a frontier in memory cannot wait in plain code")
