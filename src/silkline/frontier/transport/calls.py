"""The calls of a client: their names, which of them shards have acknowledged, and which must be sent again.

Every call has a name, a slot and a number, and the server stores the last reply of each slot. A call that is sent twice under
the same name runs once.

A failover or a restart may roll a shard back to an earlier state. If the shard still knows a call of a client, it also knows
all calls that it acknowledged to this client earlier. So every claim, enqueue and settle names the last acknowledged calls, and
the shard checks that it knows them. If it does not, recent requests are sent again.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from silkline.frontier.store.record import Offer
from silkline.frontier.transport.command import Command

KEPT_SECONDS = 290.0
"""Seconds for which the names of failed calls are kept. The server keeps replies for 300 seconds."""
MOST_KEPT = 20_000
NAMED_FOR = 240.0
"""Seconds for which later calls name an acknowledged call. The server keeps replies for 300 seconds."""
MOST_NAMED = 17
"""Calls that a later call names, at most: the last ones to be acknowledged. One of them ran after all others.

A client has two connections to a node and sends at most 16 calls at once on each. So at most 16 replies to calls that ran
earlier can arrive after the reply to a later call.
"""
SENT_AGAIN_FOR = 15.0
"""Seconds for which requests are kept to be sent again. A healthy server loses less than that."""
MOST_BYTES = 8 * 1024 * 1024
"""Maximum size of the requests that are kept, in bytes."""
WARN_EVERY = 30.0
FULL_AGAIN_AFTER = 1.0
"""Seconds to wait before lost requests are sent again to a shard that had no room for them."""

WARNING = (
    "the server lost its last writes, after a failover or restart: requests of the last %d seconds are sent again, and "
    "some pages may be fetched again"
)

NO_ROOM = (
    "the crawl is full, so requests that the server had lost cannot be stored again yet. They are kept in memory and sent again "
    "when there is room; keep this process running"
)

NOT_STORED = (
    "requests that the server had lost were not stored again: enqueue them, or the pages that link to them, again"
)

log = logging.getLogger("silkline.frontier")

CallName = tuple[str, str]


class IdempotencySlots:
    """Names for calls. A slot is used by one call at a time, in any thread.

    A forked child uses other names than its parent, otherwise it would get the replies to calls of its parent.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._client = secrets.token_hex(6)
        self._free: list[int] = []
        self._doubtful: set[tuple[str, str]] = set()
        self._numbers = itertools.count()
        self._calls = itertools.count(1)

    def take(self) -> tuple[int, tuple[str, str]]:
        """Return a free slot, and the name of a new call in it."""
        if self._pid != os.getpid():
            self._begin()
        try:
            number = self._free.pop()
        except IndexError:
            number = next(self._numbers)
        return number, (f"{self._client}:{number}", str(next(self._calls)))

    def give_back(self, number: int) -> None:
        """Free a slot, after every send got a reply. A send without a reply may still arrive, and needs the stored reply."""
        self._free.append(number)

    def sent_again(self, call: tuple[str, str]) -> None:
        """Record that a call with a name chosen by its caller got no reply to one of its sends."""
        if self.owns(call):
            self._doubtful.add(call)

    def is_free(self, call: tuple[str, str]) -> bool:
        """Return whether the slot of such a name, which is no longer used, can be freed: not if a send may still arrive."""
        doubtful = call in self._doubtful
        self._doubtful.discard(call)
        return not doubtful and self.owns(call)

    def owns(self, call: tuple[str, str]) -> bool:
        """Return whether this process made the name."""
        return self._pid == os.getpid() and call[0].startswith(f"{self._client}:")


class BatchName(NamedTuple):
    """The name of the call that stores one batch."""

    slot: int
    call: tuple[str, str]
    until: float


class FailedEnqueues:
    """The names of enqueue calls that failed, by the requests that they offered.

    It is unknown whether a failed call ran. If the caller enqueues the same requests again, the seen filter recognizes most of
    them. Requests with ``dont_filter`` would be stored twice, so their call is sent under the same name, and the server returns
    the reply of the first one.

    *give_back* is called for every name that was used, with its slot, or None if the slot must not be reused.
    """

    def __init__(self, slots: IdempotencySlots, give_back: Callable[[tuple[str, str], int | None], None]) -> None:
        self._slots = slots
        self._give_back = give_back
        self._kept: dict[bytes, deque[BatchName]] = {}

    @contextmanager
    def naming(self) -> Iterator[BatchNames]:
        """Yield names for the batches of one `enqueue`. They are kept if it fails."""
        naming = BatchNames(self, self._slots)
        try:
            yield naming
        except BaseException:
            self._keep(naming.used)
            for _, name in naming.used:
                self._slots.is_free(name.call)  # clears its mark: a name that is used again is never free
                self._give_back(name.call, None)
            raise
        for _, name in naming.used:
            self._give_back(name.call, name.slot if self._slots.is_free(name.call) else None)

    def take(self, digest: bytes) -> BatchName | None:
        """Return the name under which the same requests were offered before."""
        names = self._kept.pop(digest, None)
        while names:
            name = names.popleft()
            if name.until > time.monotonic() and self._slots.owns(name.call):
                if names:
                    self._kept[digest] = names
                self._slots.sent_again(name.call)
                return name
        return None

    def _keep(self, used: Sequence[tuple[bytes, BatchName]]) -> None:
        for digest, name in used[-MOST_KEPT:]:
            self._kept.setdefault(digest, deque()).append(name._replace(until=time.monotonic() + KEPT_SECONDS))
        while len(self._kept) > MOST_KEPT:
            self._kept.pop(next(iter(self._kept)), None)


class BatchNames:
    """The names of the batches of one `enqueue`."""

    def __init__(self, failed: FailedEnqueues, slots: IdempotencySlots) -> None:
        self._failed = failed
        self._slots = slots
        self.used: list[tuple[bytes, BatchName]] = []

    def name(self, offers: Sequence[Offer]) -> tuple[str, str] | None:
        """Return a name for a batch that has requests with ``dont_filter``; None for all others."""
        if not any(offer.options and " d " in offer.options for offer in offers):
            return None
        digest = _digest(offers)
        name = self._failed.take(digest) or BatchName(*self._slots.take(), 0.0)
        self.used.append((digest, name))
        return name.call


def _digest(offers: Sequence[Offer]) -> bytes:
    parts: list[bytes] = []
    for offer in offers:
        record = offer.record if isinstance(offer.record, bytes) else offer.record.encode("latin-1", "replace")
        parts += (b"%d %d " % (offer.shard, len(record)), record, offer.options.encode())
    return blake2b(b"".join(parts), digest_size=16).digest()


@dataclass(slots=True, eq=False)
class AcknowledgedCall:
    """A call that a shard has acknowledged."""

    name: CallName
    slot: int | None
    """The slot to free when no call names this one anymore; None if it must not be reused, or not yet."""
    time: float
    carriers: int = 0
    """Calls in progress that name it."""
    last: bool = True
    """Whether later calls must name it."""
    late: bool = False
    """Whether a call that names it may still arrive at the server."""


class AcknowledgedCalls:
    """The calls that shards have acknowledged to one client, by the key of the ledger of the shard."""

    def __init__(self, give_back: Callable[[int], None]) -> None:
        self._give_back = give_back
        self._warn_at = self._warn_full_at = 0.0
        self.losses = 0
        """How often a shard has lost writes, or may have lost some without being noticed."""
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._last: dict[str, dict[AcknowledgedCall, None]] = {}
        self._lent: dict[CallName, AcknowledgedCall] = {}
        self._recent: deque[tuple[float, int, str, Command[object]]] = deque()
        self._bytes = 0
        self._lost: dict[str, deque[Command[object]]] = {}
        self._full: dict[str, float] = {}
        """By shard without room, the time before which nothing is sent to it again."""
        self._lock = threading.Lock()

    def last(self, shard: str) -> tuple[AcknowledgedCall, ...]:
        """Return the calls that the next call to this shard must name. `confirm` or `release` must follow."""
        if self._pid != os.getpid():  # a forked child has its own slots, and no call of it was acknowledged
            self._begin()
            self.losses += 1
        calls = self._last.get(shard)
        if not calls:
            return ()
        with self._lock:
            oldest = time.monotonic() - NAMED_FOR
            for call in [call for call in calls if call.time < oldest]:
                self._drop(shard, call)
                self.losses += 1
            carried = tuple(calls)
            for call in carried:
                call.carriers += 1
            return carried

    def confirm(
        self, shard: str, carried: Sequence[AcknowledgedCall], name: CallName, slot: int | None, *, lent: bool = False
    ) -> None:
        """Record that the shard knows the named calls and has acknowledged this one, which replaces them.

        If the name is *lent*, its owner frees the slot later with `give_back`.
        """
        with self._lock:
            self._release(carried)
            for call in carried:
                self._drop(shard, call)
            call, last = AcknowledgedCall(name, slot, time.monotonic()), self._last.setdefault(shard, {})
            last[call] = None
            if lent:
                self._lent[name] = call
            if len(last) > MOST_NAMED:
                self._drop(shard, next(iter(last)))

    def give_back(self, name: CallName, slot: int | None) -> None:
        """Record that the owner of a name no longer uses it. Its *slot*, if any, is freed when no call names it anymore."""
        with self._lock:
            call = self._lent.pop(name, None)
            if call is None and slot is not None:
                self._give_back(slot)
            elif call is not None and not call.late:
                call.slot = slot

    def release(self, carried: Sequence[AcknowledgedCall], *, late: bool) -> None:
        """Record that a call that named these got a reply, or that it got none and may still run *late*."""
        if not carried:
            return
        with self._lock:
            if late:
                for call in carried:
                    call.slot, call.late = None, True
            self._release(carried)

    def _release(self, carried: Sequence[AcknowledgedCall]) -> None:
        for call in carried:
            call.carriers -= 1
            if not call.last:
                self._free(call)

    def _drop(self, shard: str, call: AcknowledgedCall) -> None:
        if call.last:
            call.last = False
            del self._last[shard][call]
            self._free(call)

    def _free(self, call: AcknowledgedCall) -> None:
        if call.carriers:
            return
        if call.slot is not None:
            self._give_back(call.slot)
            call.slot = None
        elif not call.late:
            self._lent.pop(call.name, None)

    def keep(self, shard: str, command: Command[object]) -> None:
        """Keep a command for some time, to send it again if the shard loses it."""
        now, size = time.monotonic(), len(command.args[-1])  # type: ignore[arg-type]
        with self._lock:
            self._recent.append((now, size, shard, command))
            self._bytes += size
            while self._bytes > MOST_BYTES or self._recent[0][0] < now - SENT_AGAIN_FOR:
                self._bytes -= self._recent.popleft()[1]
                if not self._recent:
                    break

    def lose(self, shard: str, carried: Sequence[AcknowledgedCall]) -> None:
        """Record that the shard does not know all named calls: recent requests must be sent again."""
        with self._lock:
            self.losses += 1
            for call in carried:
                self._drop(shard, call)
            lost = [entry for entry in self._recent if entry[2] == shard]
            self._recent = deque(entry for entry in self._recent if entry[2] != shard)
            self._bytes -= sum(entry[1] for entry in lost)
            self._lost.setdefault(shard, deque()).extend(entry[3] for entry in lost)
        if time.monotonic() >= self._warn_at:
            self._warn_at = time.monotonic() + WARN_EVERY
            log.warning(WARNING, SENT_AGAIN_FOR)

    def next_lost(self, shard: str) -> Command[object] | None:
        """Return a command that must be sent again; None if there is none, or if the shard had no room recently."""
        lost = self._lost.get(shard)
        if lost and time.monotonic() < self._full.get(shard, 0.0):
            return None
        try:
            return lost.popleft() if lost else None
        except IndexError:  # another thread sends it
            return None

    def add_lost(self, shard: str, command: Command[object]) -> None:
        """Put a command back that could not be sent."""
        self._lost[shard].appendleft(command)

    def resent(self, shard: str, command: Command[object], *, room: bool) -> None:
        """Record that a lost command was sent again. Without *room* for all of it, it is sent again later."""
        if room:
            self._full.pop(shard, None)
            return
        self._full[shard] = time.monotonic() + FULL_AGAIN_AFTER
        self.add_lost(shard, command)
        if time.monotonic() >= self._warn_full_at:
            self._warn_full_at = time.monotonic() + WARN_EVERY
            log.warning(NO_ROOM)

    def resend_now(self) -> bool:
        """Return whether lost requests remain. The next call to their shard sends them, even if it had no room."""
        self._full.clear()
        return any(self._lost.values())

    def close(self) -> None:
        """Warn if lost requests were not sent again."""
        if any(self._lost.values()):
            log.warning(NOT_STORED)


def format_names(carried: Sequence[AcknowledgedCall]) -> str:
    """Return the names of calls in the format that scripts read."""
    return "\n".join([" ".join(call.name) for call in carried])


class SentCall(NamedTuple):
    """A command with the name under which it is sent."""

    command: Command[Any]
    slot: int
    name: tuple[str, str]
    carried: tuple[AcknowledgedCall, ...] = ()
    """The acknowledged calls that it names."""
