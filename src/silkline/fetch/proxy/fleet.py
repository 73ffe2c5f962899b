"""ProxyFleet: reports what one process finds out about its proxies to the other workers of a crawl, and learns what they found out.

Reports wait for a second, and the reply to them has the news. So proxies cost no round trips per page. Only the wish to check a proxy and
a failure are sent at once: they are rare.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from silkline.core.proxy_health import NO_COUNTS, ProxyCounts, ProxyEvent, ProxyNews, ProxyReply, ProxyReport
from silkline.errors import SilklineError

log = logging.getLogger(__name__)

EVERY, COUNTS_EVERY = 1.0, 5.0
"""Seconds between two reports, and between two reports of counts."""
MOMENT = 0.005
"""Seconds for which an urgent report waits for others."""

ShareProxies: TypeAlias = Callable[[str, int, tuple[float, float], Sequence[ProxyReport]], Awaitable[ProxyReply]]
"""`FrontierInternals.share_proxies`."""


class ProxyFleet:
    """The other workers of a crawl, as the proxies of one process see them.

    *rests* returns the first and the longest rest of a proxy, and *learn* takes what others have found out.
    """

    def __init__(
        self, share: ShareProxies, rests: Callable[[], tuple[float, float]], learn: Callable[[ProxyNews], None]
    ) -> None:
        self._share = share
        self._rests = rests
        self._learn = learn
        self._worker = secrets.token_hex(4)
        self._since = 0
        self._events: dict[str, tuple[ProxyEvent, str]] = {}
        self._asked: dict[str, asyncio.Future[ProxyNews | None]] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._counted_at = time.monotonic() - COUNTS_EVERY
        self._urgent = asyncio.Event()
        self._sending = asyncio.Lock()
        self._closed = False

    def count(self, proxy: str, **counts: int) -> None:
        """Count fetches, by the names of `ProxyCounts`."""
        found = self._counts.get(proxy)
        if found is None:
            found = self._counts[proxy] = Counter()
        for name, count in counts.items():
            found[name] += count

    def report(self, proxy: str, event: ProxyEvent, why: str = "") -> None:
        """Report an event soon."""
        self._events[proxy] = event, why
        self._urgent.set()

    async def ask(self, proxy: str) -> ProxyNews | None:
        """Return what to do about a proxy that should be checked; None if the server does not reply."""
        if self._closed:
            return None
        if proxy not in self._asked:
            self._asked[proxy] = asyncio.get_running_loop().create_future()
            self._urgent.set()
        return await asyncio.shield(self._asked[proxy])

    async def run(self) -> None:
        """Report until this is cancelled."""
        try:
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._urgent.wait(), EVERY)
                await asyncio.sleep(MOMENT)
                await self.send(counts=time.monotonic() - self._counted_at >= COUNTS_EVERY)
        finally:
            self._closed = True
            for asked in self._asked.values():
                if not asked.done():
                    asked.set_result(None)

    async def send(self, *, counts: bool) -> None:
        """Send all reports, and learn what is new. Reports that cannot be stored are sent again."""
        async with self._sending:
            self._urgent.clear()
            events, self._events = self._events, {}
            asked, self._asked = self._asked, {}
            counted: dict[str, Counter[str]] = {}
            if counts:
                counted, self._counts = self._counts, {}
                self._counted_at = time.monotonic()
            reports = [ProxyReport(proxy, event, why) for proxy, (event, why) in events.items()]
            reports += [ProxyReport(proxy, "check") for proxy in asked]
            reports += [ProxyReport(proxy, counts=_counts_of(count)) for proxy, count in counted.items()]
            try:
                reply = await self._share(self._worker, self._since, self._rests(), reports)
            except SilklineError as error:
                log.debug("the health of proxies is not shared now: %s", error)
                self._events = {**events, **self._events}
                for proxy, count in counted.items():
                    self.count(proxy, **count)
                reply = ProxyReply(self._since, [])
            except asyncio.CancelledError:
                self._asked = {**asked, **self._asked}  # so that `run` ends them
                raise
            self._since = reply.change
            news = {one.proxy: one for one in reply.news}
            for proxy, future in asked.items():
                if not future.done():
                    future.set_result(news.pop(proxy, None))
            for one in news.values():
                self._learn(one)


def _counts_of(count: Counter[str]) -> ProxyCounts:
    return NO_COUNTS._replace(**count)
