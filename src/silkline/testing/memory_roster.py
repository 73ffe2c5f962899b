"""The roster of a crawl in memory."""

from __future__ import annotations

from typing import Any

import msgspec

from silkline.core.errors import UnknownCrawl
from silkline.frontier.roster import KEEP_LOST, WorkerState


class MemoryRoster:
    """Who works on a crawl, by name: until when it is taken for alive, when it joined, when it spoke last, what it told."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int, int, dict[str, Any]]] = {}
        self._shut = False
        self._orders: dict[str, str] = {}

    def join(self, worker: str, now: int, expires_ms: int, info: bytes) -> int:
        if self._shut:
            raise UnknownCrawl("the crawl is being removed")
        kept = now - round(KEEP_LOST * 1000)
        self._known = {name: one for name, one in self._known.items() if one[0] > kept}
        _, joined, _, told = self._known.get(worker, (0, now, now, {}))
        self._known[worker] = (now + expires_ms, joined, now, msgspec.json.decode(info) if info else told)
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
            self._orders[worker] = order
        return self._orders.get(worker, "work")

    def workers(self, now: int, most: int) -> list[WorkerState]:
        latest = sorted(((one[0], name) for name, one in self._known.items()), reverse=True)[:most]
        return [
            WorkerState(name, expires > now, joined / 1000, beat / 1000, info)
            for expires, name in latest
            for _, joined, beat, info in [self._known[name]]
        ]

    def _alive(self, now: int) -> int:
        return sum(expires > now for expires, *_ in self._known.values())
