"""Retries: what a failed fetch deserves. A pure decision: the status or the error goes in, a verdict comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from silkline.core.backoff import Backoff
from silkline.core.errors import ConfigError, FetchError
from silkline.core.verdict import Bury, RetryIn

if TYPE_CHECKING:
    import random

TRANSIENT = frozenset({408, 421, 423, 425, 429, 500, 502, 503, 504, 507, 520, 521, 522, 523, 524, 525, 527, 530})
"""Statuses that often heal. Others of the 4xx and 5xx do not."""

BUSY = frozenset({429, 503})
"""Statuses that ask us to go slower."""

HOPELESS = frozenset({"forbidden_address", "bad_request", "bad_url", "too_large"})
"""Kinds of errors that another attempt would only repeat."""


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """Which failures are tried again, and when.

    *backoff* says when, and how often in all; a list of seconds will do. *statuses* and all errors but *hopeless* are tried
    again, other statuses from 400 on are buried at once. Statuses to *accept* are given to the handler like a 200.
    """

    backoff: Backoff = Backoff()
    statuses: frozenset[int] = TRANSIENT
    hopeless: frozenset[str] = HOPELESS
    accept: frozenset[int] = frozenset()

    @classmethod
    def of(cls, value: Retries | Backoff | Sequence[float] | None) -> Retries:
        """From what users write: itself, a backoff, a list of seconds."""
        if isinstance(value, Retries):
            return value
        if value is None:
            return cls()
        if isinstance(value, Backoff | list | tuple):
            return cls(backoff=Backoff.of(value))
        raise ConfigError(f"retries must be Retries, a Backoff or a list of seconds, got {value!r}")

    def welcomes(self, status: int) -> bool:
        """Whether a page with this status is for the handler."""
        return status < 400 or status in self.accept

    def after_status(
        self, status: int, *, attempt: int, retry_after: float | None, rng: random.Random
    ) -> RetryIn | Bury:
        """What becomes of a request that was answered with *status*."""
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
        """What becomes of a request that could not be fetched."""
        reason = f"{error.kind}: {error}"
        if error.kind in self.hopeless:
            return Bury(reason)
        return self.backoff.decide(attempt=attempt, reason=reason, rng=rng)
