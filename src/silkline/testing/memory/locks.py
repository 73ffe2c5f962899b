"""MemoryLocks: the locks, semaphores and rate limiters of a crawl in memory."""

from __future__ import annotations

import math
from fractions import Fraction

from silkline.frontier.locks.locks import HoldReply
from silkline.testing.memory.entries import Permits, StoredLocks, StoredPlace
from silkline.testing.memory.session import MemorySession

ROUNDING_MS = Fraction(1, 10**6)


class MemoryLocks:
    """The same as `ServerLocks`, in memory."""

    def __init__(self, session: MemorySession) -> None:
        self._session = session

    def _stored(self) -> StoredLocks:
        return self._session.at_now().locks

    def _places(self, name: str) -> dict[str, StoredPlace]:
        """Return the places of a lock or semaphore whose time is not over."""
        stored, now = self._stored(), self._session.now()
        places = stored.places.pop(name, {})
        for place in places.values():
            place.expires = min(place.expires, now + place.ttl)
        alive = {holder: place for holder, place in places.items() if place.expires > now}
        if alive:
            stored.places[name] = alive
        return alive

    async def hold(self, field: str, holder: str, ttl_ms: int, places: int) -> HoldReply:
        taken, now = self._places(field), self._session.now()
        mine = taken.get(holder)
        if mine is None and len(taken) >= places:
            return HoldReply(0, min(place.expires - now for place in taken.values()) / 1000)
        if mine is None:
            stored = self._stored()
            stored.token = max(stored.token + 1, now)
            mine = StoredPlace(stored.token, ttl_ms, now + ttl_ms)
            stored.places.setdefault(field, {})[holder] = mine
        return HoldReply(mine.token, (mine.expires - now) / 1000)

    async def renew(self, field: str, holder: str, ttl_ms: int) -> bool:
        mine = self._places(field).get(holder)
        if mine:
            mine.ttl, mine.expires = ttl_ms, self._session.now() + ttl_ms
        return mine is not None

    async def release(self, field: str, holder: str) -> bool:
        return self._places(field).pop(holder, None) is not None

    async def permit(self, field: str, interval_ms: float, burst: int) -> float:
        stored, now, interval = self._stored(), self._session.now(), Fraction(interval_ms)
        permits = stored.permits.setdefault(field, Permits(Fraction(0), now))
        permits.used = max(Fraction(0), permits.used - max(0, now - permits.at) / interval)
        permits.at = now
        wait = (permits.used + 1 - burst) * interval - ROUNDING_MS
        if wait > 0:
            return math.ceil(wait) / 1000
        permits.used += 1
        return 0.0
