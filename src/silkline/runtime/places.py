"""The places that a process has at hosts, and the leases in reserve that take them over.

A host at its cap gets its next request when a page is downloaded, its place is freed, and a claim returns. That takes a few
milliseconds, or many if the process is busy, and for that time the place is empty. So a process leases some requests of such a host
in reserve. When a page is downloaded, its lease hands over its place to one of them, which starts at once. The server learns of it
before the verdict on the page, so it always knows how many places of the host are taken.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from silkline.core.lease import Lease
from silkline.errors import StoreUnavailable
from silkline.frontier.frontier import Frontier

KEEP = 1.0
"""Seconds for which a place is handed over from page to page. Then it is freed, so that other processes get their share. The last
place is kept for as long as requests are in reserve, and no more are leased for it."""
MOST_HOSTS = 8
"""Hosts for which one claim asks for leases in reserve."""


@dataclass(slots=True)
class HostPlaces:
    """What a process has at one host."""

    taken: dict[Lease, float] = field(default_factory=dict)
    """The leases that hold a place, and since when the process has that place."""
    reserve: dict[Lease, None] = field(default_factory=dict)
    downloading: set[Lease] = field(default_factory=set)
    """The leases whose pages are being downloaded. They are at most as many as places, but not always the same leases."""


class Places:
    """The places of a process. All methods but `report` may be called in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hosts: dict[str, HostPlaces] = {}
        self._left: set[Lease] = set()
        """The leases that do not hold a place any more, because another one has taken it over."""
        self._handed_over: list[tuple[Lease, Lease]] = []
        self._reporting = asyncio.Lock()

    def add(self, leases: Iterable[Lease]) -> list[Lease]:
        """Add leases that were just claimed. Returns those in reserve that must be given back.

        If the process has given back its places of a host meanwhile, there is none that they could take over.
        """
        now, unwanted = time.monotonic(), []
        with self._lock:
            for lease in leases:
                places = self._hosts.setdefault(lease.host, HostPlaces())
                if not lease.reserve:
                    places.taken[lease] = now
                elif places.taken:
                    places.reserve[lease] = None
                else:
                    unwanted.append(lease)
                    self._forget_empty(lease.host, places)
        return unwanted

    def wanted(self, most: int) -> dict[str, int]:
        """Return how many requests to lease in reserve, by host, so that there are at most *most* in all."""
        now = time.monotonic()
        with self._lock:
            left = most - sum(len(places.reserve) for places in self._hosts.values())
            lasting = {
                host: (sum(now - since <= KEEP for since in places.taken.values()), len(places.reserve))
                for host, places in self._hosts.items()
            }
        short = {host: places - reserve for host, (places, reserve) in lasting.items() if reserve * 2 <= places}
        wanted = {}
        for host in sorted(short, key=short.__getitem__, reverse=True)[:MOST_HOSTS]:
            if min(short[host], left) > 0:
                wanted[host] = min(short[host], left)
                left -= wanted[host]
        return wanted

    def limit(self, host: str) -> int | None:
        """Return how many pages of a host may be downloaded at a time, if some are in reserve."""
        with self._lock:
            places = self._hosts.get(host)
            return max(1, len(places.taken)) if places and places.reserve else None

    def start(self, lease: Lease) -> bool:
        """Note that the download of a page starts. Returns False if it must wait: others are using all places."""
        with self._lock:
            places = self._hosts.setdefault(lease.host, HostPlaces())
            if places.reserve and len(places.downloading) >= max(1, len(places.taken)):
                return False
            places.downloading.add(lease)
            return True

    def downloaded(self, lease: Lease) -> bool:
        """Note that the download of a page has ended. Returns whether its lease holds a place still.

        If it does not, another lease has taken over its place.
        """
        with self._lock:
            places = self._hosts.get(lease.host)
            if places is not None:
                places.downloading.discard(lease)
                if lease in places.reserve:  # one with a place was started later, and still has it
                    del places.reserve[lease]
                    self._left.add(lease)
                elif (since := places.taken.pop(lease, None)) is not None and self._may_keep(places, since):
                    heir = next(iter(places.reserve))
                    del places.reserve[heir]
                    places.taken[heir] = since
                    self._handed_over.append((lease, heir))
                    self._left.add(lease)
                self._forget_empty(lease.host, places)
            return lease not in self._left

    def _may_keep(self, places: HostPlaces, since: float) -> bool:
        return bool(places.reserve) and (not places.taken or time.monotonic() - since <= KEEP)

    def drop(self, leases: Iterable[Lease]) -> None:
        """Forget leases that have ended."""
        with self._lock:
            for lease in leases:
                self._left.discard(lease)
                places = self._hosts.get(lease.host)
                if places is not None:
                    places.taken.pop(lease, None)
                    places.reserve.pop(lease, None)
                    places.downloading.discard(lease)
                    self._forget_empty(lease.host, places)

    def _forget_empty(self, host: str, places: HostPlaces) -> None:
        if not places.taken and not places.reserve and not places.downloading:
            del self._hosts[host]

    async def report(self, frontier: Frontier) -> None:
        """Report to the server which places were handed over. Must be called before verdicts are sent, or places vacated."""
        async with self._reporting:  # what another task is sending must have arrived, too
            with self._lock:
                pairs, self._handed_over = self._handed_over, []
            try:
                await frontier.internal.hand_over(pairs)
            except BaseException as error:
                with self._lock:
                    self._handed_over[:0] = pairs
                if not isinstance(error, StoreUnavailable):  # which the verdicts meet too
                    raise
