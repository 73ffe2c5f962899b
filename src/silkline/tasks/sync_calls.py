# Generated from calls.py by tools/generate_sync.py. Do not edit: change that module and run `make sync`.
"""The calls of a task: enqueue them, and find them again by their handles. `sync_calls` is generated from this module."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from silkline.core.lease import Lease, State
from silkline.core.request import Request, RequestBatch
from silkline.core.verdict import Bury
from silkline.errors import QueueFull, RequestError, TaskFailed, TaskUnknown
from silkline.frontier.admin_verbs.dead_letters import CANCELLED_CALL
from silkline.frontier.admin_verbs.explain_text import Explanation
from silkline.frontier.admin_verbs.requests import ListedRequest, ListedState
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.verbs.enqueue import Admission, Admissions
from silkline.frontier.verbs.results import CallProgress
from silkline.tasks.calls import _STATUS, LISTED, LOOKS, CallArgs, TaskStatus
from silkline.tasks.spec import CallOptions, TaskSpec
from silkline.tasks.sync_groups import SyncCallGroup

R = TypeVar("R")
FIRST_LOOK, LONGEST_LOOK = 0.1, 5.0
"""Seconds for which a result is waited for before the call itself is searched; the time doubles."""


class SyncTaskHandle(Generic[R]):
    """One call of a task."""

    def __init__(self, spec: TaskSpec, connect: Callable[[], SyncFrontier], id_: str, *, added: bool = True) -> None:
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

    def status(self) -> TaskStatus:
        """Return the state of the call.

        A call that waits is searched in the queue of its task, 200,000 calls deep at most.
        """
        frontier = self._connect()
        for _ in range(LOOKS):  # it may move from one place to another while they are searched
            if frontier.result(self.url):
                return TaskStatus.DONE
            found = frontier.admin.explain(self.url)
            if found.letter is not None and found.letter.reason == CANCELLED_CALL:
                return TaskStatus.CANCELLED
            if found.state is not None:
                return _STATUS[found.state]
        return TaskStatus.UNKNOWN

    def progress(self) -> CallProgress | None:
        """Return the last progress that the function has reported with `Task.report_progress`; None without one, or after an hour."""
        return (self._connect()).internal.progress(self.url)

    def result(self, timeout: float | None = None) -> R:
        """Wait for the result, at most *timeout* seconds, and return it.

        Raises `TaskFailed` with the traceback if the call has failed for good, `TaskUnknown` if there is no such call, and
        `TimeoutError` if it has not ended in time.
        """
        frontier = self._connect()
        until = float("inf") if timeout is None else time.monotonic() + timeout
        missing = 0
        pause = FIRST_LOOK
        while True:
            left = until - time.monotonic()
            stored = frontier.result(self.url, wait=max(0.0, min(pause, left)))
            if stored:
                value: R = self._spec.arguments.read_result(stored.value)
                return value
            found = frontier.admin.explain(self.url)
            missing = missing + 1 if found.state in (None, State.DONE) else 0
            if found.state is State.DEAD or missing == LOOKS:
                raise self._failure(found)
            if left <= 0:
                raise TimeoutError(f"{self.url} has not ended within {timeout:g} s: it is {found.text}")
            pause = min(pause * 2, LONGEST_LOOK) if not missing else 0.0

    def cancel(self) -> bool:
        """Cancel the call, and return whether it was cancelled.

        A call that waits is not run. For one that runs, its lease is ended: an async task gets a `CancelledError` within some
        seconds, a process is killed, and a thread keeps running, but its result is not stored. A call that has ended stays as it is.
        """
        frontier = self._connect()
        for _ in range(LOOKS):
            found = frontier.admin.explain(self.url)
            if found.state in (State.READY, State.DELAYED):
                if self._bury(frontier, found.state):
                    return True
            elif found.state is State.LEASED:
                if self._end(frontier):
                    return True
            elif found.state is not None:
                return False
        return False

    def _bury(self, frontier: SyncFrontier, state: State) -> bool:
        listed = self._listed(frontier, state)
        return bool(listed and frontier.internal.cancel_calls([listed.id]))

    def _end(self, frontier: SyncFrontier) -> bool:
        """End the lease of the worker that runs the call. It notices that when it extends the lease."""
        listed = self._listed(frontier, State.LEASED)
        if listed is None:
            return False
        _, shard, token = listed.id.split(":", 2)
        lease = Lease(
            request=listed.request, shard=int(shard), wire_token=token, host=listed.host,
            attempt=listed.attempts, first=0.0, expires=0.0, history=listed.history,
        )  # fmt: skip
        return not (frontier.settle([(lease, Bury(CANCELLED_CALL))])).lost

    def _listed(self, frontier: SyncFrontier, state: State) -> ListedRequest | None:
        """Return the call as it is listed, with the id for the methods that change it."""
        listed = cast("ListedState", state.value)
        page = frontier.admin.requests(listed, host=self._spec.name, limit=LISTED)
        while True:
            for one in page.requests:
                if one.url == self.url:
                    return one
            if not page.after:
                return None
            page = frontier.admin.requests(listed, host=self._spec.name, limit=LISTED, after=page.after)

    def _failure(self, found: Explanation) -> TaskFailed | TaskUnknown:
        if found.letter is None:
            return TaskUnknown(
                f"{self.url} has no result: its result has expired or is not kept, or it was never enqueued"
            )
        history = found.letter.history
        return TaskFailed(self.url, found.letter.reason, history[-1].detail if history else "", found.letter.attempts)


class SyncTaskCalls(Generic[CallArgs, R]):
    """Enqueues the calls of one task."""

    def __init__(self, spec: TaskSpec, connect: Callable[[], SyncFrontier], options: CallOptions | None = None) -> None:
        self._spec = spec
        self._connect = connect
        self._options = options or CallOptions()

    def enqueue(self, *args: CallArgs.args, **kwargs: CallArgs.kwargs) -> SyncTaskHandle[R]:
        """Check the arguments against the hints, and enqueue a call."""
        return (self._offer([self._spec.request(args, kwargs, self._options)]))[0]

    def enqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[SyncTaskHandle[R]]:
        """Enqueue many calls, each given by its arguments. All are checked before the first is enqueued."""
        if self._options.unique is not None:
            raise RequestError("enqueue_many cannot be used with unique: it would be the key of all calls")
        return self._offer(self._spec.requests(list(calls), self._options))

    def handle(self, id_: str | None = None, *, unique: str | None = None) -> SyncTaskHandle[R]:
        """Return the handle of a call by its id, or by its *unique* key, also before the call is enqueued."""
        if (id_ is None) == (unique is None):
            raise RequestError("a handle is found by the id of its call, or by its unique key")
        return SyncTaskHandle(self._spec, self._connect, CallOptions(unique=unique).new_id() if id_ is None else id_)

    def group(self, *args: CallArgs.args, **kwargs: CallArgs.kwargs) -> SyncCallGroup[SyncTaskHandle[R]]:
        """Check the arguments, and return a group of which this call is the callback: use it with ``with``."""
        return self._group_of(self._spec.request(args, kwargs, self._options))

    def _group_of(self, request: Request) -> SyncCallGroup[SyncTaskHandle[R]]:
        options = self._options
        return SyncCallGroup(
            request,
            self.handle(request.url[len(self._spec.url("")) :]),
            self._connect,
            allow_failure=options.allow_failure,
            after=options.urls_after(self._spec.queue),
            outer=options.group,
        )

    def _offer(self, requests: Sequence[Request]) -> list[SyncTaskHandle[R]]:
        frontier = self._connect()
        if self._options.after:
            admissions = Admissions([self._wait(request) for request in requests])
        elif self._options.group is not None:
            requests, admissions = self._options.group.offer(requests)
        else:
            admissions = frontier.enqueue(requests)
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
            SyncTaskHandle(self._spec, self._connect, id_, added=admission is Admission.ADDED)
            for id_, admission in zip(ids, admissions, strict=True)
        ]

    def _wait(self, request: Request) -> Admission:
        """Enqueue a call that waits for others."""
        group = self._group_of(request).open()
        group.close()
        return Admission.ADDED if group.added else Admission.SEEN
