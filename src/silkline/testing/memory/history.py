"""The history of a crawl in memory."""

from __future__ import annotations

from silkline.frontier.verbs.history import (
    COARSE,
    FINE,
    MOST_HANDLERS,
    OTHERS,
    Counts,
    HandlerCounts,
    HandlerNumbers,
    HistoryRing,
    Levels,
    Point,
    handler_counts,
    handler_name,
    merged,
    which_ring,
)


class MemoryHistory:
    """Counts by ring and step number."""

    def __init__(self) -> None:
        self._steps: dict[tuple[HistoryRing, int], Point] = {}
        self.total = Counts()
        self.handlers: dict[str, HandlerCounts] = {}

    def add(self, now: int, counts: Counts, levels: Levels | None, by_handler: HandlerNumbers | None = None) -> None:
        self.total.add(counts)
        for name, numbers in (by_handler or {}).items():
            known = handler_name(name)
            if known not in self.handlers and len(self.handlers) >= MOST_HANDLERS:
                known = OTHERS
            self.handlers.setdefault(known, HandlerCounts()).add(handler_counts(numbers))
        for ring in (FINE, COARSE):
            point = self._at(ring, now // (ring.step * 1000))
            point.add(counts)
            point.levels = levels or point.levels
            self._steps[ring, now // (ring.step * 1000)] = point

    def _at(self, ring: HistoryRing, number: int) -> Point:
        known = self._steps.get((ring, number))
        return known or Point(time=float(number * ring.step), step=float(ring.step))

    def read(self, now: int, since: float, step: float | None) -> list[Point]:
        ring, steps = which_ring(since, step)
        return merged(self.last(now, ring, steps), step)

    def last(self, now: int, ring: HistoryRing, steps: int) -> list[Point]:
        """Return the last steps of a ring, including the current one."""
        last = now // (ring.step * 1000)
        return [self._at(ring, number) for number in range(last - steps + 1, last + 1)]
