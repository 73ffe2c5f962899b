"""One host of a crawl in memory: its queues, its rate limits, and when its next request may start."""

from __future__ import annotations

import copy
import math
from collections import deque
from dataclasses import dataclass, field

from silkline.frontier.store.settings import Settings
from silkline.frontier.verbs.hosts import HostArguments, HostState, StatusCounts, in_ms
from silkline.testing.memory.entries import MemoryEntry

HALF_LIFE = 60_000
ROUNDED = 0.001
"""Milliseconds by which the sum of delays with thousandths may be too large."""
LEAST_SLOWED = 250
MOST_SLOWED = 3_600_000


@dataclass(slots=True, eq=False)
class MemoryHost:
    """A host. Times are in milliseconds.

    A host with requests is ready (it has a *turn*), waiting (it *opens* later), or neither: at its concurrency limit, or
    paused.
    """

    name: str
    settings: Settings
    queues: dict[int, deque[MemoryEntry]] = field(default_factory=dict)
    """Queues by priority; empty queues are removed."""
    own: dict[str, float] = field(default_factory=dict)
    """Settings of this host: delay, concurrency, burst, block_until, paused, crawl_delay; slowed, since."""
    leased: int = 0
    pages: int = 0
    spent: float = 0
    """Time until which the started requests use up the rate limit. It is kept when the queues are empty."""
    turn: int | None = None
    since: int = 0
    """Time at which the host got its turn."""
    opens: float | None = None
    answers: StatusCounts | None = None

    @property
    def usual_delay(self) -> float:
        """The delay without a slowdown."""
        crawls = round(self.settings.politeness.delay * 1000)
        return self.own.get("delay", max(crawls, self.own.get("crawl_delay", 0)))

    def delay(self, now: int) -> float:
        """Return the current delay. A slowdown lasts in full for as long as its own delay, then halves every minute."""
        return max(self.usual_delay, self._slowed(now))

    def _slowed(self, now: int) -> int:
        if "slowed" not in self.own:
            return 0
        decaying = max(0, now - self.own["since"] - self.own["slowed"])
        return math.floor(self.own["slowed"] * math.pow(2.0, -decaying / HALF_LIFE) + 0.5)

    def is_paced(self, now: int) -> bool:
        """Whether the host currently has its own rate limits."""
        lasting = self.own.keys() - {"block_until", "slowed", "since"}
        return bool(lasting) or self.blocked_until > now or self.delay(now) > self.usual_delay

    def burst(self, now: int) -> int:
        """Return the burst; 1 while the host is slowed down."""
        if self.delay(now) > self.usual_delay:
            return 1
        return int(self.own.get("burst", self.settings.politeness.burst))

    @property
    def concurrency(self) -> int:
        """Maximum requests in progress, limited by the remaining page budget of the host."""
        concurrency = int(self.own.get("concurrency", self.settings.politeness.concurrency))
        budget = self.settings.budget.pages_per_host
        return concurrency if budget is None else min(concurrency, budget - self.pages)

    @property
    def blocked_until(self) -> int:
        return int(self.own.get("block_until", 0))

    @property
    def paused(self) -> bool:
        return "paused" in self.own

    @property
    def queued(self) -> int:
        return sum(map(len, self.queues.values()))

    @property
    def top(self) -> int | None:
        """The highest priority with queued requests."""
        return max(self.queues, default=None)

    def next_start(self, now: int) -> float:
        """Return the time at which the next request may start, after a block and within the delay and burst."""
        return max(self.blocked_until, self.spent - (self.burst(now) - 1) * self.delay(now))

    def set_pace(self, pace: HostArguments, ahead: int) -> None:
        """Set the rate limits. None restores the default of the crawl. A delay ends a slowdown.

        The crawl's clock is *ahead* milliseconds ahead of the server's clock, which callers use.
        """
        if "delay" in pace:
            self._end_slow_down()
        for name, value in pace.items():
            if value is None or (name == "paused" and not value):
                self.own.pop(name, None)
            else:
                assert isinstance(value, int | float)
                in_seconds = name in ("block_until", "crawl_delay")
                self.own[name] = in_ms(value) if name == "delay" else round(value * 1000) if in_seconds else int(value)
                self.own[name] += ahead if name == "block_until" else 0

    def slow(self, started: int, now: int) -> bool:
        """Double the delay from now on; return False if the request started before the last doubling."""
        self.forget_what_is_over(now)
        if started <= self.own.get("since", 0):
            return False
        slowed = min(max(2 * self.delay(now), LEAST_SLOWED), MOST_SLOWED)
        self.own |= {"slowed": slowed, "since": now}
        self.spent = max(self.spent, now + self.delay(now))
        return True

    def forget_what_is_over(self, now: int) -> None:
        if self.blocked_until <= now:
            self.own.pop("block_until", None)
        if self._slowed(now) == 0:
            self._end_slow_down()

    def _end_slow_down(self) -> None:
        self.own.pop("slowed", None)
        self.own.pop("since", None)

    def push(self, entry: MemoryEntry, *, at_head: bool) -> bool:
        """Queue an entry at its priority; return whether that queue was empty."""
        queue = self.queues.setdefault(entry.priority, deque())
        if at_head or self.settings.order == "lifo":
            queue.appendleft(entry)
        else:
            queue.append(entry)
        return len(queue) == 1

    def take(self, most: int, now: int, slack: int) -> list[MemoryEntry]:
        """Start as many requests of the highest priority as the rate limits allow."""
        assert self.top is not None
        queue = self.queues[self.top]
        taken = [queue.popleft() for _ in range(min(most, self.may_start(now), len(queue)))]
        if not queue:
            del self.queues[self.top]
        self.start(len(taken), now, slack)
        return taken

    def take_in_reserve(self, most: int, now: int) -> list[MemoryEntry]:
        """Take requests of the highest priority although the host is at its cap, if it has no delay."""
        blocked = self.paused or self.blocked_until > now or self.delay(now) > 0
        if blocked or self.top is None or self.leased < max(1, self.concurrency):
            return []
        queue = self.queues[self.top]
        taken = [queue.popleft() for _ in range(min(most, len(queue)))]
        if not queue:
            del self.queues[self.top]
        return taken

    def start(self, requests: int, now: int, slack: int) -> None:
        """Count started requests against the rate limit."""
        if delay := self.delay(now):
            self.spent = round(max(self.spent, now) + (delay + slack) * requests, 3)
        self.leased += requests

    def may_start(self, now: int) -> int:
        """Return how many requests may start now."""
        if self.paused or self.next_start(now) > now:
            return 0
        free = self.concurrency - self.leased
        if delay := self.delay(now):
            room = (self.burst(now) - 1) * delay - max(0, self.spent - now)
            free = min(free, int((room + ROUNDED) // delay) + 1)
        return free

    def add_answers(self, counts: StatusCounts, now: int) -> None:
        """Add status counts of responses."""
        self.answers = self.answers or StatusCounts()
        self.answers.add(counts)
        self.answers.updated = float(now // 1000)

    def drop(self) -> int:
        """Empty the queues; return the number of dropped requests."""
        dropped = self.queued
        self.queues.clear()
        return dropped

    def state(self, now: int, ahead: int) -> HostState:
        place, opens = self._where(now)
        return HostState(
            host=self.name,
            place=place,
            opens_in=max(0, opens - now) / 1000,
            queued=self.queued,
            leased=self.leased,
            delay=self.delay(now) / 1000,
            concurrency=self.concurrency,
            burst=self.burst(now),
            blocked_until=(self.blocked_until - ahead) / 1000 if self.blocked_until > now else None,
            paused=self.paused,
            pages=self.pages,
            slowed_from=self.usual_delay / 1000 if self.delay(now) > self.usual_delay else None,
            crawl_delay=self.own["crawl_delay"] / 1000 if "crawl_delay" in self.own else None,
            answers=copy.copy(self.answers),
        )

    def _where(self, now: int) -> tuple[str, float]:
        if self.paused:
            return "paused", now
        if self.turn is not None:
            return "ready", now
        if self.opens is not None:
            return "waiting", self.opens
        if self.queues or self.leased:
            return "busy", now
        return ("resting", self.spent) if self.spent > now else ("unknown", now)
