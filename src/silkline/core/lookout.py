"""Lookout: which shards are worth asking, and when. A client's memory of what it was told."""

from __future__ import annotations

import math

SAFETY_LOOK = 5.0
"""Seconds after which a silent shard is asked anyway, in case a message got lost."""

SPACING = (0.0, 0.01, 0.025, 0.06)
"""Seconds between looks that find nothing, one after the other: quick at first, below 20 a second in the long run."""


class Lookout:
    """Times are seconds on any steady clock of the caller's."""

    def __init__(self, shards: int) -> None:
        self._next = [0.0] * shards
        self._rung = [(-math.inf, math.inf)] * shards  # when the bell rang last, and when it told to look
        self._turn = 0
        self._fruitless = 0
        self._safety = max(SAFETY_LOOK, shards / 10)

    def due(self, now: float) -> list[int]:
        """Shards to ask now; each call starts at another one, so that none is favoured."""
        count = len(self._next)
        self._turn = (self._turn + 1) % count
        order = (*range(self._turn, count), *range(self._turn))
        return [shard for shard in order if self._next[shard] <= now]

    def answered(self, shard: int, look_in: float | None, *, asked: float, now: float) -> None:
        """A shard, asked at that time, said when to ask again (None: it does not know)."""
        rung, told = self._rung[shard]
        if rung < asked:
            self._rung[shard] = (rung, math.inf)
            told = math.inf
        self._next[shard] = min(told, now + min(self._safety, math.inf if look_in is None else look_in))

    def heard(self, shard: int, look_in: float, now: float) -> None:
        """The bell rang. It may do so before the answer to an older question is read, and must not be drowned by it."""
        self._rung[shard] = (now, min(self._rung[shard][1], now + look_in))
        self._next[shard] = min(self._next[shard], now + look_in)

    def forget(self) -> None:
        """Trust nothing: ask every shard again."""
        self._next = [0.0] * len(self._next)

    def found(self) -> None:
        self._fruitless = 0

    def pause(self, now: float) -> float:
        """Seconds to wait, unless the bell rings, after a look that found nothing."""
        self._fruitless = min(self._fruitless + 1, len(SPACING) - 1)
        return max(SPACING[self._fruitless], self.next_look - now)

    @property
    def next_look(self) -> float:
        """When a shard is to be asked again."""
        return min(self._next)

    @property
    def spacing(self) -> float:
        """The least time to the next look, even if the bell rings."""
        return SPACING[self._fruitless]
