"""The workers of a crawl in memory."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from silkline.errors import UnknownCrawl
from silkline.frontier.verbs.workers import KEEP_LOST, WorkerOrder, WorkerState


class MemoryRoster:
    """The workers by name: until when they count as alive, start, last heartbeat, and reported info."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int, int, dict[str, Any]]] = {}
        self._shut = False
        self._orders: dict[str, WorkerOrder] = {}

    def join(self, worker: str, now: int, expires_ms: int, info: bytes) -> int:
        if self._shut:
            raise UnknownCrawl("the crawl is being removed")
        kept = now - round(KEEP_LOST * 1000)
        self._known = {name: one for name, one in self._known.items() if one[0] > kept}
        self._orders = {name: order for name, order in self._orders.items() if name in self._known}
        _, joined, _, known = self._known.get(worker, (0, now, now, {}))
        self._known[worker] = (now + expires_ms, joined, now, msgspec.json.decode(info) if info else known)
        return self._alive(now) - 1

    def leave(self, worker: str, now: int, *, shut: bool) -> int:
        self._known.pop(worker, None)
        self._orders.pop(worker, None)
        others = self._alive(now)
        self._shut = self._shut or (shut and not others)
        return others

    def order(self, worker: str, order: str) -> str:
        if worker not in self._known:
            return "unknown"
        if order:
            self._orders[worker] = cast("WorkerOrder", order)
        return self._orders.get(worker, "work")

    def workers(self, now: int, most: int) -> list[WorkerState]:
        latest = sorted(((one[0], name) for name, one in self._known.items()), reverse=True)[:most]
        return [
            WorkerState(name, expires > now, joined / 1000, beat / 1000, info, self._orders.get(name, "work"))
            for expires, name in latest
            for _, joined, beat, info in [self._known[name]]
        ]

    def lost(self, now: int) -> int:
        """Return how many workers were lost in the last hour."""
        return sum(now - round(KEEP_LOST * 1000) < expires <= now for expires, *_ in self._known.values())

    def _alive(self, now: int) -> int:
        return sum(expires > now for expires, *_ in self._known.values())
