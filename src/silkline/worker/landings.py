"""Landings: pages that are downloaded and not yet settled.

A lease holds one of its host's places, so that no site is asked for more pages at a time than it is to be. The site is done
with a page when it has landed; its handler and the sinks may take much longer. Those that do are told to the frontier, which
gives their places to the next pages. Most pages are settled before that is worth a command.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from silkline.core.errors import SilklineError
from silkline.core.lease import Lease
from silkline.frontier.frontier import Frontier

LINGER = 0.05
"""Seconds that a page may take from its landing to its settlement before its place is given away."""


class Landings:
    """*wanted* says whether more pages could be begun than there were to claim."""

    def __init__(self, frontier: Frontier, wanted: Callable[[], bool]) -> None:
        self._frontier = frontier
        self._wanted = wanted
        self._since: dict[Lease, float] = {}
        self._some = asyncio.Event()

    def add(self, lease: Lease) -> None:
        """A page has landed."""
        self._since[lease] = time.monotonic()
        self._some.set()

    def drop(self, leases: Iterable[Lease]) -> None:
        """These are settled."""
        for lease in leases:
            self._since.pop(lease, None)

    async def run(self) -> None:
        """Vacate what lingers, for ever."""
        while True:
            await self._some.wait()
            await asyncio.sleep(LINGER)
            await self._vacate()
            if not self._since:
                self._some.clear()

    async def _vacate(self) -> None:
        landed = time.monotonic() - LINGER
        lingering = [lease for lease, since in self._since.items() if since <= landed]
        if lingering and self._wanted():
            with suppress(SilklineError):  # whatever it is, those who claim and settle meet it too
                await self._frontier.vacate(lingering)
                self.drop(lingering)
