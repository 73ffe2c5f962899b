"""The calls of a task: enqueue them, and find them again by their handles. `sync_calls` is generated from this module."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Generic, ParamSpec, TypeVar, cast

from silkline.core.lease import Lease, State
from silkline.core.request import Request, RequestBatch
from silkline.core.verdict import Bury
from silkline.errors import QueueFull, RequestError, TaskFailed, TaskUnknown
from silkline.frontier.admin_verbs.dead_letters import CANCELLED_CALL
from silkline.frontier.admin_verbs.explain_text import Explanation
from silkline.frontier.admin_verbs.requests import ListedRequest, ListedState
from silkline.frontier.frontier import Frontier
from silkline.frontier.verbs.enqueue import Admission, Admissions
from silkline.frontier.verbs.results import CallProgress
from silkline.tasks.groups import CallGroup
from silkline.tasks.spec import CallOptions, TaskSpec

CallArgs = ParamSpec("CallArgs")
R = TypeVar("R")

LOOKS = 3
"""Number of searches for a call that changes state meanwhile."""
FIRST_LOOK, LONGEST_LOOK = 0.1, 5.0
"""Seconds for which a result is waited for before the call itself is searched; the time doubles."""
LISTED = 1000


class TaskStatus(StrEnum):
    """The state of a call."""

    WAITING = "waiting"
    DELAYED = "delayed"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """Its result has expired, or it was never enqueued."""


_STATUS = {
    State.READY: TaskStatus.WAITING, State.DELAYED: TaskStatus.DELAYED, State.LEASED: TaskStatus.RUNNING,
    State.DONE: TaskStatus.DONE, State.DEAD: TaskStatus.FAILED,
}  # fmt: skip


class TaskHandle(Generic[R]):
    """One call of a task."""

    def __init__(
        self, spec: TaskSpec, connect: Callable[[], Awaitable[Frontier]], id_: str, *, added: bool = True
    ) -> None:
        self._spec = spec
        self._connect = connect
        self.id = id_
        """Pass it to `handle` of the task, in any process."""
        self.added = added
        """Whether this call was added; False if a call with the same *unique* key was enqueued before."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    @property
    def queue(self) -> str:
        """The name of its application, or of its crawl."""
        return self._spec.queue

    @property
    def url(self) -> str:
        """The URL of its request, for `silkline explain` and the dashboard."""
        return self._spec.url(self.id)

    async def status(self) -> TaskStatus:
        """Return the state of the call.

        A call that waits is searched in the queue of its task, 200,000 calls deep at most.
        """
        frontier = await self._connect()
        for _ in range(LOOKS):  # it may move from one place to another while they are searched
            if await frontier.result(self.url):
                return TaskStatus.DONE
            found = await frontier.admin.explain(self.url)
            if found.letter is not None and found.letter.reason == CANCELLED_CALL:
                return TaskStatus.CANCELLED
            if found.state is not None:
                return _STATUS[found.state]
        return TaskStatus.UNKNOWN

    async def progress(self) -> CallProgress | None:
        """Return the last progress that the function has reported with `Task.report_progress`; None without one, or after an hour."""
        return await (await self._connect()).internal.progress(self.url)

    async def result(self, timeout: float | None = None) -> R:
        """Wait for the result, at most *timeout* seconds, and return it.

        Raises `TaskFailed` with the traceback if the call has failed for good, `TaskUnknown` if there is no such call, and
        `TimeoutError` if it has not ended in time.
        """
        frontier = await self._connect()
        until = float("inf") if timeout is None else time.monotonic() + timeout
        missing = 0
        pause = FIRST_LOOK
        while True:
            left = until - time.monotonic()
            stored = await frontier.result(self.url, wait=max(0.0, min(pause, left)))
            if stored:
                value: R = self._spec.arguments.read_result(stored.value)
                return value
            found = await frontier.admin.explain(self.url)
            missing = missing + 1 if found.state in (None, State.DONE) else 0
            if found.state is State.DEAD or missing == LOOKS:
                raise self._failure(found)
            if left <= 0:
                raise TimeoutError(f"{self.url} has not ended within {timeout:g} s: it is {found.text}")
            pause = min(pause * 2, LONGEST_LOOK) if not missing else 0.0

    async def cancel(self) -> bool:
        """Cancel the call, and return whether it was cancelled.

        A call that waits is not run. For one that runs, its lease is ended: an async task gets a `CancelledError` within some
        seconds, a process is killed, and a thread keeps running, but its result is not stored. A call that has ended stays as it is.
        """
        frontier = await self._connect()
        for _ in range(LOOKS):
            found = await frontier.admin.explain(self.url)
            if found.state in (State.READY, State.DELAYED):
                if await self._bury(frontier, found.state):
                    return True
            elif found.state is State.LEASED:
                if await self._end(frontier):
                    return True
            elif found.state is not None:
                return False
        return False

    async def _bury(self, frontier: Frontier, state: State) -> bool:
        listed = await self._listed(frontier, state)
        return bool(listed and await frontier.internal.cancel_calls([listed.id]))

    async def _end(self, frontier: Frontier) -> bool:
        """End the lease of the worker that runs the call. It notices that when it extends the lease."""
        listed = await self._listed(frontier, State.LEASED)
        if listed is None:
            return False
        _, shard, token = listed.id.split(":", 2)
        lease = Lease(
            request=listed.request, shard=int(shard), wire_token=token, host=listed.host,
            attempt=listed.attempts, first=0.0, expires=0.0, history=listed.history,
        )  # fmt: skip
        return not (await frontier.settle([(lease, Bury(CANCELLED_CALL))])).lost

    async def _listed(self, frontier: Frontier, state: State) -> ListedRequest | None:
        """Return the call as it is listed, with the id for the methods that change it."""
        listed = cast("ListedState", state.value)
        page = await frontier.admin.requests(listed, host=self._spec.name, limit=LISTED)
        while True:
            for one in page.requests:
                if one.url == self.url:
                    return one
            if not page.after:
                return None
            page = await frontier.admin.requests(listed, host=self._spec.name, limit=LISTED, after=page.after)

    def _failure(self, found: Explanation) -> TaskFailed | TaskUnknown:
        if found.letter is None:
            return TaskUnknown(
                f"{self.url} has no result: its result has expired or is not kept, or it was never enqueued"
            )
        history = found.letter.history
        return TaskFailed(self.url, found.letter.reason, history[-1].detail if history else "", found.letter.attempts)


class TaskCalls(Generic[CallArgs, R]):
    """Enqueues the calls of one task."""

    def __init__(
        self, spec: TaskSpec, connect: Callable[[], Awaitable[Frontier]], options: CallOptions | None = None
    ) -> None:
        self._spec = spec
        self._connect = connect
        self._options = options or CallOptions()

    async def enqueue(self, *args: CallArgs.args, **kwargs: CallArgs.kwargs) -> TaskHandle[R]:
        """Check the arguments against the hints, and enqueue a call."""
        return (await self._offer([self._spec.request(args, kwargs, self._options)]))[0]

    async def enqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[TaskHandle[R]]:
        """Enqueue many calls, each given by its arguments. All are checked before the first is enqueued."""
        if self._options.unique is not None:
            raise RequestError("enqueue_many cannot be used with unique: it would be the key of all calls")
        return await self._offer(self._spec.requests(list(calls), self._options))

    def handle(self, id_: str | None = None, *, unique: str | None = None) -> TaskHandle[R]:
        """Return the handle of a call by its id, or by its *unique* key, also before the call is enqueued."""
        if (id_ is None) == (unique is None):
            raise RequestError("a handle is found by the id of its call, or by its unique key")
        return TaskHandle(self._spec, self._connect, CallOptions(unique=unique).new_id() if id_ is None else id_)

    def group(self, *args: CallArgs.args, **kwargs: CallArgs.kwargs) -> CallGroup[TaskHandle[R]]:
        """Check the arguments, and return a group of which this call is the callback: use it with ``async with``."""
        return self._group_of(self._spec.request(args, kwargs, self._options))

    def _group_of(self, request: Request) -> CallGroup[TaskHandle[R]]:
        options = self._options
        return CallGroup(
            request,
            self.handle(request.url[len(self._spec.url("")) :]),
            self._connect,
            allow_failure=options.allow_failure,
            after=options.urls_after(self._spec.queue),
            outer=options.group,
        )

    async def _offer(self, requests: Sequence[Request]) -> list[TaskHandle[R]]:
        frontier = await self._connect()
        if self._options.after:
            admissions = Admissions([await self._wait(request) for request in requests])
        elif self._options.group is not None:
            requests, admissions = await self._options.group.offer(requests)
        else:
            admissions = await frontier.enqueue(requests)
        if admissions.refusals:
            refused, first = len(admissions.refusals), admissions.refusals[0]
            others = f" ({refused} of {len(requests)} calls; the others were offered)" if len(requests) > 1 else ""
            raise RequestError(f"{self._spec.name}() cannot be enqueued: {first.reason}{others}")
        if Admission.FULL in admissions:
            full = admissions.count(Admission.FULL)
            raise QueueFull(
                f"{frontier.crawl} is full: {full} of {len(requests)} calls of {self._spec.name}() did not fit"
            )
        start = len(self._spec.url(""))
        ids = requests.ends if isinstance(requests, RequestBatch) else [request.url[start:] for request in requests]
        return [
            TaskHandle(self._spec, self._connect, id_, added=admission is Admission.ADDED)
            for id_, admission in zip(ids, admissions, strict=True)
        ]

    async def _wait(self, request: Request) -> Admission:
        """Enqueue a call that waits for others."""
        group = await self._group_of(request).open()
        await group.close()
        return Admission.ADDED if group.added else Admission.SEEN
