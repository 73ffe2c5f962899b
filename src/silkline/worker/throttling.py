"""Throttling: a worker fetches fewer pages at a time while its machine is short of something, and no host gets more than its share.

A worker has one event loop. A page that occupies it for a long time (decoding, parsing, its handler) delays all other pages. So while the
worker is busy, a host with costly pages rests after each of them, until it has used no more than an equal share of the last
seconds. It keeps its place meanwhile, so its next page is not claimed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from silkline.errors import LocalFailure
from silkline.fetch.local import limit, pages
from silkline.runtime.counters import COSTLY

log = logging.getLogger(__name__)

# ── shortages of this machine ──

AGAIN = 5.0
"""Seconds after which a page that failed because of a shortage is retried, plus or minus half."""
LOWER_EVERY = 1.0
"""Seconds between two steps down: pages that fail at the same time count once."""
RECOVER_AFTER = 10.0
"""Seconds without a shortage between two steps up."""


class AdaptiveConcurrency:
    """Halves the concurrency of a worker when this machine is short of something, and doubles it back afterwards."""

    def __init__(self, concurrency: int) -> None:
        self._full = min(concurrency, pages())
        self._changed = -RECOVER_AFTER
        self._kind = ""
        if self._full < concurrency:
            log.warning(
                "ulimit -n is %d, which allows %d concurrent pages instead of %d; raise the limit",
                limit(),
                self._full,
                concurrency,
            )
        self.concurrency = self._full
        """Pages that the worker may have in progress now."""

    def on_shortage(self, error: LocalFailure) -> float:
        """Note a shortage, and return the seconds after which its page may be tried again."""
        now = time.monotonic()
        if now - self._changed >= LOWER_EVERY:
            self._changed = now
            self.concurrency = max(1, self.concurrency // 2)
        if error.kind != self._kind:
            self._kind = error.kind
            log.warning(
                "%s. Affected pages are retried, not buried, and at most %d pages are fetched at a time",
                error,
                self.concurrency,
            )
        return AGAIN * random.uniform(0.5, 1.5)

    def recover(self) -> None:
        """Take a step up if there was no shortage for a while."""
        now = time.monotonic()
        if not self._kind or now - self._changed < RECOVER_AFTER:
            return
        self._changed = now
        self.concurrency = min(self._full, self.concurrency * 2)
        if self.concurrency == self._full:
            log.warning("this machine has enough resources again (it was short of: %s)", self._kind)
            self._kind = ""


# ── shares of hosts ──

T = TypeVar("T")

WINDOW = 1.0
"""Seconds that count. Older ones count for less and less."""
BUSY = 0.9
"""The part of its time that pages must take before a worker counts as busy."""
SEEN = 3
"""A host counts as active if it had a page within this many windows."""
MOST_SHARES = 10
"""Each host may use at least a tenth, however many hosts there are."""
LONGEST_REST, LOOK = 10.0, 0.05
MOST_HOSTS = 1_000


class Metered(Generic[T]):
    """Awaits a coroutine, and measures how long it keeps the event loop busy; if *closely*, in CPU time as well."""

    __slots__ = ("_closely", "_coroutine", "_cpu", "seconds")

    def __init__(self, coroutine: Coroutine[Any, Any, T], *, closely: bool = False) -> None:
        self._coroutine = coroutine
        self._closely = closely
        self._cpu = 0.0
        self.seconds = 0.0

    @property
    def cpu(self) -> float:
        """CPU time if it is measured *closely*, else elapsed time."""
        return self._cpu if self._closely else self.seconds

    def __await__(self) -> Generator[Any, Any, T]:
        step: Callable[[Any], Any] = self._coroutine.send
        handed: Any = None
        while True:
            cpu = time.thread_time() if self._closely else 0.0
            begun = time.perf_counter()
            try:
                waits_for = step(handed)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            finally:
                self.seconds += time.perf_counter() - begun
                if self._closely:
                    self._cpu += time.thread_time() - cpu
            try:
                handed = yield waits_for
                step = self._coroutine.send
            except GeneratorExit:
                self._coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001 - it is for the coroutine
                step, handed = self._coroutine.throw, error


class HostShares:
    """Measures how long the pages of each host kept a worker busy recently."""

    def __init__(self) -> None:
        self._all = 0.0
        self._costly: dict[str, float] = {}
        self._suspects: set[str] = set()
        self._seen: dict[str, float] = {}  # when each host had its last page
        self._at = time.monotonic()

    def suspects(self, host: str) -> bool:
        """Return whether the last page of a host seemed costly, so that the CPU time of the next one must be measured.

        Reading the CPU time is a system call, many times slower than reading the clock. But on a busy machine, a page that takes
        long need not be costly.
        """
        return host in self._suspects

    def note(self, host: str, seconds: float, cpu: float) -> bool:
        """Count how long a page kept the worker busy. Returns whether it was costly, which is measured from the second page on."""
        self._fade()
        self._all += seconds
        self._seen[host] = self._at
        if cpu < COSTLY:
            self._suspects.discard(host)
            return False
        if host not in self._suspects:
            if len(self._suspects) >= MOST_HOSTS:
                self._suspects.clear()
            self._suspects.add(host)
            return False
        self._costly[host] = self._costly.get(host, 0.0) + seconds
        return True

    def over(self, host: str) -> bool:
        """Return whether the worker is busy with several hosts, and this one has used more than its share."""
        self._fade()
        hosts = len(self._seen)
        share = WINDOW / min(max(hosts, 1), MOST_SHARES)
        return hosts > 1 and self._all > BUSY * WINDOW and self._costly.get(host, 0.0) > share

    async def rest(self, host: str, stopping: Callable[[], bool]) -> None:
        """Wait until a host is no longer over its share."""
        until = time.monotonic() + LONGEST_REST
        while self.over(host) and not stopping() and time.monotonic() < until:  # noqa: ASYNC110 - only time has to pass
            await asyncio.sleep(LOOK)

    def _fade(self) -> None:
        now = time.monotonic()
        left = math.exp((self._at - now) / WINDOW)
        self._at = now
        self._all *= left
        if self._costly:
            faded = {host: seconds * left for host, seconds in self._costly.items() if seconds * left > COSTLY / 10}
            self._costly = dict(sorted(faded.items(), key=lambda one: -one[1])[:MOST_HOSTS])
            self._seen = {host: when for host, when in self._seen.items() if when > now - SEEN * WINDOW}
        elif len(self._seen) > MOST_HOSTS:
            self._seen.clear()
