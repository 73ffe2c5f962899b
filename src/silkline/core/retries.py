"""Retries: which failed fetches are retried, and when. Pure functions of the error, the attempt and a random number."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import msgspec

from silkline.core.request import is_time
from silkline.core.verdict import Bury, RetryIn, check_after
from silkline.errors import ConfigError, FetchError

if TYPE_CHECKING:
    import random

    from silkline.core.request import Request


class RetryLater(Exception):
    """Raise it in a handler or a task to try again *after* seconds, or when the backoff says. It counts as an attempt."""

    def __init__(self, after: float | None = None, why: str = "requested by the handler") -> None:
        super().__init__(why)
        if after is not None:
            check_after(after)
        self.after = after
        self.why = why


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Exponential backoff with full jitter: a random time up to 1, 2, 4 … seconds, capped.

    *base* is the first upper limit and *cap* the largest, in seconds. A request is buried after *max_attempts* attempts.
    ``Backoff(steps=(1, 10, 60))`` waits exactly these *steps* instead, one per attempt, then gives up.
    """

    base: float = 1.0
    cap: float = 3600.0
    max_attempts: int = 5
    steps: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and not (self.steps and all(is_time(step) for step in self.steps)):
            raise ConfigError(f"backoff steps must be a list of seconds of at least 0, got {list(self.steps)!r}")
        if self.base <= 0 or self.cap < self.base:
            raise ConfigError(f"backoff needs 0 < base <= cap, got base={self.base}, cap={self.cap}")
        if self.max_attempts < 1:
            raise ConfigError(f"max_attempts must be at least 1, got {self.max_attempts}")

    @classmethod
    def of(cls, value: Backoff | Sequence[float]) -> Backoff:
        """Return a `Backoff` made of a `Backoff` or a list of seconds."""
        return value if isinstance(value, Backoff) else cls(steps=tuple(value))

    def decide(self, *, attempt: int, reason: str, rng: random.Random, status: int | None = None) -> RetryIn | Bury:
        """Return the verdict after *attempt* (1 is the first) failed for *reason*: a retry, or a burial after the last attempt."""
        limit = self.max_attempts if self.steps is None else len(self.steps) + 1
        if attempt >= limit:
            return Bury(reason, status)
        if self.steps is not None:
            return RetryIn(self.steps[attempt - 1], reason, status)
        ceiling = min(self.cap, self.base * 2.0 ** min(attempt - 1, 60))
        return RetryIn(rng.uniform(0, ceiling), reason, status)


TRANSIENT = frozenset({408, 421, 423, 425, 429, 500, 502, 503, 504, 507, 520, 521, 522, 523, 524, 525, 527, 530})
"""Statuses of temporary errors. Other statuses from 400 on are permanent."""

BUSY = frozenset({429, 503})
"""Statuses with which a site asks for fewer requests."""

HOPELESS = frozenset({"forbidden_address", "bad_request", "bad_url", "too_large", "hostile_html", "not_cached"})
"""Kinds of errors that another attempt would only repeat."""

FLOOD, FLOOD_REST = "flood", 30.0
"""The kind of error of a host that sends data without end, and the seconds for which the host is blocked then."""


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """Which failures are retried, and when.

    *backoff* sets the delays and the number of attempts; it may be a list of seconds. *statuses* and all errors except *hopeless*
    are retried; other statuses from 400 on are buried at once. The handler gets statuses in *accept* like a 200.

    A page whose handler raises an exception becomes a dead letter after *handler_attempts* attempts: a mistake in the code
    fails again, and each attempt costs the site a request. When *pause_after* pages of one handler in a row fail with the
    same exception on the same line, the worker pauses the crawl; None turns this off.
    """

    backoff: Backoff = Backoff()
    statuses: frozenset[int] = TRANSIENT
    hopeless: frozenset[str] = HOPELESS
    accept: frozenset[int] = frozenset()
    handler_attempts: int = 1
    pause_after: int | None = 50

    def __post_init__(self) -> None:
        if type(self.handler_attempts) is not int or self.handler_attempts < 1:
            raise ConfigError(f"handler_attempts must be at least 1, got {self.handler_attempts!r}")
        if self.pause_after is not None and (type(self.pause_after) is not int or self.pause_after < 1):
            raise ConfigError(f"pause_after must be at least 1, or None, got {self.pause_after!r}")

    @classmethod
    def of(cls, value: Retries | Backoff | Sequence[float] | None) -> Retries:
        """Return `Retries` made of `Retries`, a `Backoff` or a list of seconds."""
        if isinstance(value, Retries):
            return value
        if value is None:
            return cls()
        if isinstance(value, Backoff | list | tuple):
            return cls(backoff=Backoff.of(value))
        raise ConfigError(f"retries must be Retries, a Backoff or a list of seconds, got {value!r}")

    def for_request(self, request: Request) -> Retries:
        """Return what applies to *request*: its own `retries` or `max_attempts`, also if its handler raises an exception."""
        waits, attempts = request.retries, request.max_attempts
        if waits is None and attempts is None:
            return self
        if waits:
            backoff, attempts = Backoff(steps=tuple(waits)), len(waits) + 1
        else:
            attempts = attempts or 1
            backoff = msgspec.structs.replace(self.backoff, max_attempts=attempts, steps=None)
        return msgspec.structs.replace(self, backoff=backoff, handler_attempts=attempts)

    def after_status(
        self, status: int, *, attempt: int, retry_after: float | None, rng: random.Random
    ) -> RetryIn | Bury:
        """Return the verdict on a request whose response has *status*."""
        reason = f"status {status}"
        if status not in self.statuses:
            return Bury(reason, status)
        verdict = self.backoff.decide(attempt=attempt, reason=reason, rng=rng, status=status)
        if isinstance(verdict, Bury) or status not in BUSY:
            return verdict
        if retry_after is not None:
            return RetryIn(retry_after, reason, status, block_host=True)
        return msgspec.structs.replace(verdict, slow_host=True)

    def after_error(self, error: FetchError, *, attempt: int, rng: random.Random) -> RetryIn | Bury:
        """Return the verdict on a request that could not be fetched. A host that floods is blocked as a whole."""
        reason = f"{error.kind}: {error}"
        if error.kind in self.hopeless:
            return Bury(reason)
        verdict = self.backoff.decide(attempt=attempt, reason=reason, rng=rng)
        if isinstance(verdict, Bury) or error.kind != FLOOD:
            return verdict
        return RetryIn(max(verdict.after, FLOOD_REST), reason, block_host=True)

    def after_exception(self, reason: str, *, attempt: int, rng: random.Random) -> RetryIn | Bury:
        """Return the verdict on a page whose handler raised an exception or returned an item that cannot be stored."""
        if attempt >= self.handler_attempts:
            return Bury(reason)
        return self.backoff.decide(attempt=attempt, reason=reason, rng=rng)


MAX_RETRY_AFTER = 86_400.0
"""Seconds; longer times are limited to a day."""

_LONGEST_HEADER = 64


def retry_after(header: str | None, now: float, most: float = MAX_RETRY_AFTER) -> float | None:
    """Return the seconds to wait, at most *most*, from a Retry-After header; *now* is the unix time.

    The header holds seconds or an HTTP date. Returns None if there is no header, if it is invalid, and if it says *at once*,
    because retrying at once does not help: slow the host down instead.
    """
    text = (header or "").strip()
    if not text or len(text) > _LONGEST_HEADER or not text.isascii():
        return None
    seconds = float(text) if text.isdigit() else _until(text, now)
    return min(seconds, most) if seconds > 0 else None


def _until(date: str, now: float) -> float:
    try:
        time = parsedate_to_datetime(date)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() - now
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
