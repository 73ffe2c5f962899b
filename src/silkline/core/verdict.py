"""Verdicts: how a lease ends. `settle` takes pairs of a lease and one of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from silkline.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from silkline.core.request import Request


class Complete(msgspec.Struct, frozen=True):
    """Finished well; *links* were found on the page."""

    links: Sequence[Request | str] = ()


class RetryIn(msgspec.Struct, frozen=True):
    """Try again *after* seconds.

    With *block_host* the whole host waits that long (`Retry-After`). With *slow_host* its delay doubles, and decays
    back: the site complained, but did not say for how long.
    """

    after: float
    reason: str = ""
    status: int | None = None
    block_host: bool = False
    slow_host: bool = False
    detail: str = ""
    """More than a line, such as a traceback, for the request's history."""

    def __post_init__(self) -> None:
        check_after(self.after)
        check_status(self.status)
        if self.block_host and self.slow_host:
            raise ConfigError("a host is blocked for a time (block_host) or slowed (slow_host), not both")


class Bury(msgspec.Struct, frozen=True):
    """Give up: the request becomes a dead letter."""

    reason: str
    status: int | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        check_status(self.status)


class Release(msgspec.Struct, frozen=True):
    """Give back unused, to be handed out again *after* seconds; costs no attempt."""

    after: float = 0.0

    def __post_init__(self) -> None:
        check_after(self.after)


Verdict = Complete | RetryIn | Bury | Release

LONGEST_WAIT = 3_153_600_000.0
"""A hundred years, in seconds."""


def check_after(after: float) -> None:
    if not isinstance(after, int | float) or not after <= LONGEST_WAIT:
        raise ConfigError(f"after must be a number of seconds, at most a hundred years, got {after!r}")


def check_status(status: int | None) -> None:
    """What is stored must be readable again."""
    if status is not None and (type(status) is not int or not -(2**31) <= status < 2**63):
        raise ConfigError(f"a status is a whole number such as 503, got {status!r}")
