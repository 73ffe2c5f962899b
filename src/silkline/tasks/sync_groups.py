# Generated from groups.py by tools/generate_sync.py. Do not edit: change that module and run `make sync`.
"""Groups: calls of tasks of which another call waits until all have ended. `sync_groups` is generated from this module.

Calls are watched before they are enqueued, and counted by their group afterwards. So none ends unnoticed, and none is waited for that was
not enqueued because this program died.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from silkline.core.lease import State
from silkline.core.request import Request
from silkline.errors import QueueFull, RequestError, SilklineError
from silkline.frontier.admin_verbs.requests import MOST_LOOKED
from silkline.frontier.sync import SyncFrontier
from silkline.frontier.transport.command import MAX_BATCH
from silkline.frontier.verbs.enqueue import Admission, Admissions
from silkline.frontier.verbs.groups import CALL_ENDED, CALL_FAILED, CALL_PENDING, NO_CALL, GroupState, group_name
from silkline.tasks.groups import (
    LOOKS,
    WAIT_AT_MOST,
    WATCHED_LONGER,
    is_unique,
    new_batch,
    number,
)

H = TypeVar("H")


class SyncCallGroup(Generic[H]):
    """Calls of any tasks, and a *callback*: a call that is enqueued once, when all of them have ended.

    ::

        with report.group(month=3) as group:
            resize.options(group=group).enqueue_many(calls)

    At the end of the block, the group is closed. Its calls may run before that. Without any call, the callback is enqueued at once.
    After an exception, the callback is dropped, unless it has a *unique* key: then the same program may continue with the group later.
    """

    def __init__(
        self,
        request: Request,
        callback: H,
        connect: Callable[[], SyncFrontier],
        *,
        allow_failure: bool,
        after: Sequence[str] = (),
        outer: SyncCallGroup[Any] | None = None,
    ) -> None:
        self.callback = callback
        """The handle of the call that waits."""
        self.added: bool | None = None
        """Whether the callback was added; False if a call with its *unique* key was enqueued before. None before the group is open."""
        self._request = request
        self._name = group_name(request)
        self._connect = connect
        self._allow_failure = allow_failure
        self._after = [Request(url) for url in after]
        self._outer = outer
        self._until = 0.0
        self.waits = False
        """Whether the callback waits for calls that join: not if it was enqueued before and has ended."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} for {self._name}>"

    def open(self) -> Self:
        """Store the callback, which waits from then on. ``with`` does this. It can be done again."""
        frontier = self._connect()
        self._until = until_of(frontier, self._request)
        if any(group_name(other) == self._name for other in self._after):
            raise RequestError(f"{self._request.url} cannot wait for itself")
        was_open = self.added is not None
        try:
            self._open(frontier)
        except BaseException:
            if not was_open:
                self.added = None
                with suppress(SilklineError):
                    self._drop(frontier)
            raise
        return self

    def _open(self, frontier: SyncFrontier) -> None:
        if self._outer is None:
            opened = open_for(frontier, self._request, self._until, allow_failure=self._allow_failure)
        else:
            opened = self._open_in(frontier, self._outer)
        self.added = opened == "added"
        self.waits = opened != "seen"
        if self.waits:
            self._wait_for_others(frontier)

    def _drop(self, frontier: SyncFrontier) -> None:
        """Drop the callback, unless it has a *unique* key: then the group may be continued."""
        if self._request.dont_filter:
            frontier.internal.join_group(self._name, following="drop")

    def _open_in(self, frontier: SyncFrontier, outer: SyncCallGroup[Any]) -> str:
        """Let another group wait for the callback."""
        outer._check_open()
        batch = new_batch()
        if outer.waits:
            watch(frontier, outer._name, batch, [(self._name, 0)], outer._until)
        opened = open_for(frontier, self._request, self._until, allow_failure=self._allow_failure)
        if outer.waits:
            admission = Admission.SEEN if opened == "seen" else Admission.ADDED
            letter = letter_of(frontier, self._request, admission)
            outer._join(frontier, batch, [self._request], [letter])
        return opened

    def _wait_for_others(self, frontier: SyncFrontier) -> None:
        """Let the callback wait for calls that were enqueued before."""
        for start in range(0, len(self._after), MAX_BATCH):
            some = self._after[start : start + MAX_BATCH]
            batch = new_batch()
            names = [(group_name(other), place) for place, other in enumerate(some)]
            watch(frontier, self._name, batch, names, self._until)
            letters = [letter_of(frontier, other, Admission.SEEN) for other in some]
            if not self._count(frontier, batch, some, letters):
                if self._request.dont_filter:
                    raise self._closed_error()
                self.waits = False  # another program has enqueued the same call meanwhile, and let it wait
                return

    def _join(self, frontier: SyncFrontier, batch: str, requests: Sequence[Request], letters: Sequence[str]) -> None:
        """Count calls that are watched."""
        if not self._count(frontier, batch, requests, letters):
            raise self._closed_error()

    def _closed_error(self) -> RequestError:
        return RequestError(f"the group of {self._request.url} is closed: its callback does not wait for these calls")

    def _count(self, frontier: SyncFrontier, batch: str, requests: Sequence[Request], letters: Sequence[str]) -> bool:
        """Count calls that are watched; False if the group is closed."""
        if frontier.internal.join_group(self._name, batch, "".join(letters)) not in ("joined", "complete"):
            return False
        over = [
            (group_name(request), place)
            for place, (request, letter) in enumerate(zip(requests, letters, strict=True))
            if letter != CALL_PENDING
        ]
        if over:  # they had ended before, or were not enqueued
            frontier.internal.watch(self._name, batch, over, 0)
        return True

    def close(self) -> H:
        """Let no more calls join, and return the handle of the callback. ``with`` does this."""
        self._check_open()
        if self.waits:
            frontier = self._connect()
            frontier.internal.join_group(self._name, following="close")
        return self.callback

    def state(self) -> GroupState | None:
        """Return how many calls are left, and how many have failed; None if the group is complete, or was not opened."""
        frontier = self._connect()
        return frontier.internal.group(self._name)

    def offer(self, requests: Sequence[Request]) -> tuple[Sequence[Request], Admissions]:
        """Enqueue calls that join the group. Returns them with their final ids, and what the frontier did."""
        self._check_open()
        frontier = self._connect()
        if not self.waits:  # the callback was enqueued before, and waits for nothing any more
            return requests, frontier.enqueue(requests)
        offered, admissions = list(requests), Admissions()
        for start in range(0, len(requests), MAX_BATCH):
            some, replies = self._offer_batch(frontier, offered[start : start + MAX_BATCH])
            offered[start : start + MAX_BATCH] = some
            admissions.refusals += [one._replace(position=start + one.position) for one in replies.refusals]
            admissions += replies
        return offered, admissions

    def _offer_batch(self, frontier: SyncFrontier, requests: Sequence[Request]) -> tuple[Sequence[Request], Admissions]:
        batch = new_batch()
        numbered, names = number(batch, requests)
        if self._name in dict(names):
            raise RequestError(f"{self._request.url} cannot be in the group that it waits for")
        watch(frontier, self._name, batch, names, self._until)
        admissions = frontier.enqueue(numbered)
        letters = [
            letter_of(frontier, request, admission) for request, admission in zip(numbered, admissions, strict=True)
        ]
        self._join(frontier, batch, numbered, letters)
        return numbered, admissions

    def _check_open(self) -> None:
        if self.added is None:
            raise RequestError(
                f"the group of {self._request.url} is not open: use it in a `with` block, or call its open()"
            )

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self.waits:
            self._drop(self._connect())


def until_of(frontier: SyncFrontier, request: Request) -> float:
    """Return the unix time at which a call becomes a dead letter if it still waits."""
    return frontier.internal.now + WAIT_AT_MOST if request.expires is None else request.expires


def open_for(frontier: SyncFrontier, request: Request, until: float, *, allow_failure: bool) -> str:
    """Store a call that waits. Returns added, open or seen."""
    opened = frontier.internal.open_group(request, until, allow_failure=allow_failure)
    if opened == "full":
        raise QueueFull(f"{frontier.crawl} is full: {request.url} did not fit")
    if opened == "refused":
        raise RequestError(f"{request.url} cannot be enqueued: the crawl is cancelled")
    return opened


def watch(frontier: SyncFrontier, name: str, batch: str, names: Sequence[tuple[str, int]], until: float) -> None:
    """Watch calls before they are enqueued or searched, so that none ends unnoticed."""
    if not frontier.internal.watch(name, batch, names, until + WATCHED_LONGER):
        raise QueueFull(f"too many groups wait for one of these calls, or the server of {frontier.crawl} is full")


def letter_of(frontier: SyncFrontier, request: Request, admission: Admission) -> str:
    """Return how a call is noted in its group when it joins. One that was enqueued before may have ended."""
    if admission is not Admission.SEEN:
        return CALL_PENDING if admission is Admission.ADDED else NO_CALL
    for _ in range(LOOKS):  # it may move from one place to another while they are searched
        if frontier.result(request.url):
            return CALL_ENDED
        found = frontier.admin.explain(request.url)
        if found.state is State.DEAD:
            return CALL_FAILED
        if found.state not in (None, State.DONE) or found.host.queued > MOST_LOOKED:
            return CALL_PENDING
        if found.state is None and is_unique(request):
            return CALL_PENDING  # it was never seen, and may be enqueued later
    return CALL_ENDED  # or it was never enqueued, which looks the same once its result has expired
