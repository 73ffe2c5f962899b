"""One host of a crawl in memory: its queues, its pace, and when it may be fetched."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from silkline.frontier.commands import HostState
from silkline.frontier.settings import Settings
from silkline.frontier.wishes import HostWishes
from silkline.testing.memory_entries import Entry


@dataclass(slots=True, eq=False)
class MemoryHost:
    """Times are in milliseconds.

    A host with requests is ready (it has a *turn*), waits (it *opens* later), or is neither: at its cap, or paused.
    """

    name: str
    settings: Settings
    queues: dict[int, deque[Entry]] = field(default_factory=dict)
    """By priority; none of them is empty."""
    own: dict[str, int] = field(default_factory=dict)
    """What of its pace is its own: delay, concurrency, burst, block_until, paused."""
    leased: int = 0
    pages: int = 0
    spent: int = 0
    """Until when its pace is used up by what has started. It stays when the queues run empty."""
    turn: int | None = None
    opens: int | None = None

    @property
    def delay(self) -> int:
        return self.own.get("delay", round(self.settings.politeness.delay * 1000))

    @property
    def burst(self) -> int:
        return self.own.get("burst", self.settings.politeness.burst)

    @property
    def concurrency(self) -> int:
        """How many requests may be under way; never more than its page budget has left."""
        concurrency = self.own.get("concurrency", self.settings.politeness.concurrency)
        budget = self.settings.budget.pages_per_host
        return concurrency if budget is None else min(concurrency, budget - self.pages)

    @property
    def blocked_until(self) -> int:
        return self.own.get("block_until", 0)

    @property
    def paused(self) -> bool:
        return "paused" in self.own

    @property
    def queued(self) -> int:
        return sum(map(len, self.queues.values()))

    @property
    def top(self) -> int | None:
        """The best priority at which something waits."""
        return max(self.queues, default=None)

    @property
    def next_start(self) -> int:
        """When its block is over and its pace allows another start; a burst may start that much earlier."""
        return max(self.blocked_until, self.spent - (self.burst - 1) * self.delay)

    def set_pace(self, pace: HostWishes) -> None:
        """Fields that are None return to the crawl's default."""
        for name, value in pace.items():
            if value is None or (name == "paused" and not value):
                self.own.pop(name, None)
            else:
                assert isinstance(value, int | float)
                self.own[name] = round(value * 1000) if name in ("delay", "block_until") else int(value)

    def push(self, entry: Entry, *, at_head: bool) -> bool:
        """Queue an entry at its priority; True when nothing waited there before."""
        queue = self.queues.setdefault(entry.priority, deque())
        if at_head or self.settings.order == "lifo":
            queue.appendleft(entry)
        else:
            queue.append(entry)
        return len(queue) == 1

    def take(self, most: int, now: int) -> list[Entry]:
        """Start as many requests of the best priority as cap and pace allow, and note how that spends the pace."""
        assert self.top is not None
        queue = self.queues[self.top]
        taken = [queue.popleft() for _ in range(min(most, self._may_start(now), len(queue)))]
        if not queue:
            del self.queues[self.top]
        if self.delay:
            self.spent = max(self.spent, now) + self.delay * len(taken)
        self.leased += len(taken)
        return taken

    def _may_start(self, now: int) -> int:
        if self.paused or self.next_start > now:
            return 0
        free = self.concurrency - self.leased
        if self.delay:
            room = (self.burst - 1) * self.delay - max(0, self.spent - now)
            free = min(free, room // self.delay + 1)
        return free

    def drop(self) -> int:
        """Empty the queues; answers how many requests that were."""
        dropped = self.queued
        self.queues.clear()
        return dropped

    def state(self, now: int) -> HostState:
        place, opens = self._where(now)
        return HostState(
            host=self.name,
            place=place,
            opens_in=max(0, opens - now) / 1000,
            queued=self.queued,
            leased=self.leased,
            delay=self.delay / 1000,
            concurrency=self.concurrency,
            burst=self.burst,
            blocked_until=self.blocked_until / 1000 if self.blocked_until > now else None,
            paused=self.paused,
            pages=self.pages if self.settings.budget.pages_per_host is not None else 0,
        )

    def _where(self, now: int) -> tuple[str, int]:
        if self.paused:
            return "paused", now
        if self.turn is not None:
            return "ready", now
        if self.opens is not None:
            return "waiting", self.opens
        if self.queues or self.leased:
            return "busy", now
        return ("resting", self.spent) if self.spent > now else ("unknown", now)
