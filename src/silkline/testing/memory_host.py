"""One host of a crawl in memory: its queues, its pace, and when it may be fetched."""

from __future__ import annotations

import copy
import math
from collections import deque
from dataclasses import dataclass, field

from silkline.frontier.answers import Answers
from silkline.frontier.host_state import HostState
from silkline.frontier.settings import Settings
from silkline.frontier.wishes import HostWishes
from silkline.testing.memory_entries import Entry

HALF_LIFE = 60_000
LEAST_SLOWED = 250
MOST_SLOWED = 3_600_000


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
    """What of its pace is its own: delay, concurrency, burst, block_until, paused, crawl_delay; slowed, since."""
    leased: int = 0
    pages: int = 0
    spent: int = 0
    """Until when its pace is used up by what has started. It stays when the queues run empty."""
    turn: int | None = None
    since: int = 0
    """When it got that turn."""
    opens: int | None = None
    answers: Answers | None = None

    @property
    def usual_delay(self) -> int:
        """Its delay when the site has not complained."""
        crawls = round(self.settings.politeness.delay * 1000)
        return self.own.get("delay", max(crawls, self.own.get("crawl_delay", 0)))

    def delay(self, now: int) -> int:
        """A slowed delay holds in full for as long as it lasts itself, then halves every minute."""
        if "slowed" not in self.own:
            return self.usual_delay
        decaying = max(0, now - self.own["since"] - self.own["slowed"])
        slowed = math.floor(self.own["slowed"] * math.pow(2.0, -decaying / HALF_LIFE) + 0.5)
        return max(self.usual_delay, slowed)

    def burst(self, now: int) -> int:
        """None while it is slowed."""
        if self.delay(now) > self.usual_delay:
            return 1
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

    def next_start(self, now: int) -> int:
        """When its block is over and its pace allows another start; a burst may start that much earlier."""
        return max(self.blocked_until, self.spent - (self.burst(now) - 1) * self.delay(now))

    def set_pace(self, pace: HostWishes) -> None:
        """Fields that are None return to the crawl's default. A delay ends a slow-down."""
        if "delay" in pace:
            self._end_slow_down()
        for name, value in pace.items():
            if value is None or (name == "paused" and not value):
                self.own.pop(name, None)
            else:
                assert isinstance(value, int | float)
                in_seconds = name in ("delay", "block_until", "crawl_delay")
                self.own[name] = round(value * 1000) if in_seconds else int(value)

    def slow(self, started: int, now: int) -> bool:
        """Double the delay, counted from now; False for a request that had started before it was doubled last."""
        if started <= self.own.get("since", 0):
            return False
        slowed = min(max(2 * self.delay(now), LEAST_SLOWED), MOST_SLOWED)
        self.own |= {"slowed": slowed, "since": now}
        self.spent = max(self.spent, now + self.delay(now))
        return True

    def forget_what_is_over(self, now: int) -> None:
        if self.blocked_until <= now:
            self.own.pop("block_until", None)
        if self.delay(now) <= self.usual_delay:
            self._end_slow_down()

    def _end_slow_down(self) -> None:
        self.own.pop("slowed", None)
        self.own.pop("since", None)

    def push(self, entry: Entry, *, at_head: bool) -> bool:
        """Queue an entry at its priority; True when nothing waited there before."""
        queue = self.queues.setdefault(entry.priority, deque())
        if at_head or self.settings.order == "lifo":
            queue.appendleft(entry)
        else:
            queue.append(entry)
        return len(queue) == 1

    def take(self, most: int, now: int, slack: int) -> list[Entry]:
        """Start as many requests of the best priority as cap and pace allow, and note how that spends the pace."""
        assert self.top is not None
        queue = self.queues[self.top]
        taken = [queue.popleft() for _ in range(min(most, self.may_start(now), len(queue)))]
        if not queue:
            del self.queues[self.top]
        if delay := self.delay(now):
            self.spent = max(self.spent, now) + (delay + slack) * len(taken)
        self.leased += len(taken)
        return taken

    def may_start(self, now: int) -> int:
        """What its cap, its pace and its block allow."""
        if self.paused or self.next_start(now) > now:
            return 0
        free = self.concurrency - self.leased
        if delay := self.delay(now):
            room = (self.burst(now) - 1) * delay - max(0, self.spent - now)
            free = min(free, room // delay + 1)
        return free

    def hear(self, told: Answers, now: int) -> None:
        """Count in what it answered."""
        self.answers = self.answers or Answers()
        self.answers.add(told)
        self.answers.heard = float(now // 1000)

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
            delay=self.delay(now) / 1000,
            concurrency=self.concurrency,
            burst=self.burst(now),
            blocked_until=self.blocked_until / 1000 if self.blocked_until > now else None,
            paused=self.paused,
            pages=self.pages if self.settings.budget.pages_per_host is not None else 0,
            slowed_from=self.usual_delay / 1000 if self.delay(now) > self.usual_delay else None,
            crawl_delay=self.own["crawl_delay"] / 1000 if "crawl_delay" in self.own else None,
            answers=copy.copy(self.answers),
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
