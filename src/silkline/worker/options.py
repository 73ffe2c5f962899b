"""WorkerOptions: how many pages a worker process handles at a time, and its limits."""

import msgspec

from silkline.errors import ConfigError


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How many pages one worker process handles at a time, and its limits.

    The worker has at most *concurrency* pages in progress and extends the lease of each by *lease* seconds at a time. An attempt
    that takes longer than *attempt_limit* seconds fails. A worker that must stop ends within *drain* seconds.

    A worker whose event loop is blocked for *blocked_limit* seconds (0 for no limit) gives back its pages, and the page that
    blocks it gets a strike. A worker process of ``silkline`` that uses more than *memory_limit* bytes does the same. Such a
    process ends, and ``silkline run`` starts another one. A program of your own that runs a `Worker` is never ended.
    """

    concurrency: int = 64
    lease: float = 15.0
    attempt_limit: float = 600.0
    drain: float = 20.0
    blocked_limit: float = 30.0
    memory_limit: int | None = None

    def __post_init__(self) -> None:
        if type(self.concurrency) is not int or not 1 <= self.concurrency <= 10_000:
            raise ConfigError(f"concurrency must be from 1 to 10000 pages at a time, got {self.concurrency!r}")
        if self.lease < 1 or self.attempt_limit <= 0 or self.drain < 0:
            raise ConfigError("lease must be at least 1 s, attempt_limit above 0, drain at least 0")
        if self.blocked_limit != 0 and not self.blocked_limit >= 2:
            raise ConfigError(f"blocked_limit must be at least 2 s, or 0 for none, got {self.blocked_limit!r}")
        if self.memory_limit is not None and self.memory_limit < 2**20:
            raise ConfigError(f"memory_limit must be at least {2**20} bytes, or None, got {self.memory_limit!r}")
