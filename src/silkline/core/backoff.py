"""Backoff: when to try again. A pure function of the attempt, the error and a random number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from silkline.core.errors import ConfigError
from silkline.core.verdict import Bury, RetryIn

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Exponential backoff with full jitter: a random time up to 1, 2, 4 … seconds, capped.

    ``Backoff(steps=(1, 10, 60))`` waits exactly these seconds instead, one step an attempt, then gives up.
    """

    base: float = 1.0
    cap: float = 3600.0
    max_attempts: int = 5
    steps: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and (not self.steps or any(step < 0 for step in self.steps)):
            raise ConfigError(f"backoff steps must be a list of seconds of at least 0, got {list(self.steps)!r}")
        if self.base <= 0 or self.cap < self.base:
            raise ConfigError(f"backoff needs 0 < base <= cap, got base={self.base}, cap={self.cap}")
        if self.max_attempts < 1:
            raise ConfigError(f"max_attempts must be at least 1, got {self.max_attempts}")

    @classmethod
    def of(cls, value: Backoff | Sequence[float]) -> Backoff:
        """A `Backoff` from what users write: itself, or a list of seconds."""
        return value if isinstance(value, Backoff) else cls(steps=tuple(value))

    def decide(self, *, attempt: int, reason: str, rng: random.Random, status: int | None = None) -> RetryIn | Bury:
        """After *attempt* (1 is the first) failed for *reason*: when to try again, or to give up."""
        limit = self.max_attempts if self.steps is None else len(self.steps) + 1
        if attempt >= limit:
            return Bury(f"gave up after {attempt} attempts: {reason}", status)
        if self.steps is not None:
            return RetryIn(self.steps[attempt - 1], reason, status)
        ceiling = min(self.cap, self.base * 2.0 ** min(attempt - 1, 60))
        return RetryIn(rng.uniform(0, ceiling), reason, status)
