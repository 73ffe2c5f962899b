"""Pace: how hard one worker process works."""

import msgspec

from silkline.core.errors import ConfigError


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How hard one worker process works.

    It has *concurrency* pages under way, holds each for *lease* seconds at a time while it works on it, gives a page up that
    takes longer than *attempt_limit* seconds, and when told to stop ends within *drain* seconds.
    """

    concurrency: int = 64
    lease: float = 15.0
    attempt_limit: float = 600.0
    drain: float = 20.0

    def __post_init__(self) -> None:
        if type(self.concurrency) is not int or not 1 <= self.concurrency <= 10_000:
            raise ConfigError(f"concurrency must be from 1 to 10000 pages at a time, got {self.concurrency!r}")
        if self.lease < 1 or self.attempt_limit <= 0 or self.drain < 0:
            raise ConfigError("lease must be at least 1 s, attempt_limit above 0, drain at least 0")
