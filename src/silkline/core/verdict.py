"""Verdicts: how a lease ends. `settle` takes pairs of a lease and one of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from silkline.core.request import Request
from silkline.core.revisit import LastVisit
from silkline.errors import ConfigError

KEEP_RESULT = 3600.0
"""Seconds for which a result is kept, unless the verdict says otherwise."""


class NextVisit(msgspec.Struct, frozen=True):
    """The page is visited again *after* seconds. *visit* is stored with its request; without it, the one of the request stays."""

    after: float
    visit: LastVisit | None = None

    def __post_init__(self) -> None:
        check_after(self.after)


class Complete(msgspec.Struct, frozen=True):
    """The request is done; *links* are the links that were found on its page.

    *known* are more links, which this frontier has accepted before. They are offered again only if the server has lost writes since.
    *result* is a small value that can be written as JSON: `Frontier.result` returns it, for *keep* seconds.
    With *next_visit*, the request is done and at the same moment delayed for its next visit; it has no result then.
    """

    links: Sequence[Request | str] = ()
    known: Sequence[Request | str] = ()
    result: Any = msgspec.UNSET
    keep: float = KEEP_RESULT
    next_visit: NextVisit | None = None


class RetryIn(msgspec.Struct, frozen=True):
    """Try again *after* seconds.

    With *block_host*, the whole host waits that long (`Retry-After`). With *slow_host*, the delay of the host doubles and then
    decays; use it for a 429 or 503 without `Retry-After`. *reason*, *status* and *detail* (several lines, such as a traceback) are added
    to the history of the request.
    """

    after: float
    reason: str = ""
    status: int | None = None
    block_host: bool = False
    slow_host: bool = False
    detail: str = ""

    def __post_init__(self) -> None:
        check_after(self.after)
        check_status(self.status)
        if self.block_host and self.slow_host:
            raise ConfigError("block_host and slow_host cannot be used together")


class Bury(msgspec.Struct, frozen=True):
    """The request becomes a dead letter.

    *reason* says why, in one line; dead letters are grouped by it. *status* is the HTTP status, if there was one, and *detail* has
    several lines, such as a traceback.
    """

    reason: str
    status: int | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        check_status(self.status)


class Release(msgspec.Struct, frozen=True):
    """Return the request unused. It is handed out again *after* seconds, and this counts as no attempt."""

    after: float = 0.0

    def __post_init__(self) -> None:
        check_after(self.after)


class Strike(msgspec.Struct, frozen=True):
    """The request took its worker down. After three strikes, it becomes a dead letter with this *reason*.

    *detail* has several lines, such as a traceback; *status* is always None. *noted* says whether the reason is added to the history of
    the request, which is impossible if only the token is known.
    """

    reason: str
    status: None = None
    detail: str = ""
    noted: bool = True


class Suspect(msgspec.Struct, frozen=True):
    """The worker was lost while it held the request, which may be responsible: as if the lease had expired now.

    The request is handed out again as a suspect. If it was a suspect that a worker had started, it gets a strike.
    """


Verdict = Complete | RetryIn | Bury | Release | Strike | Suspect

LONGEST_WAIT = 3_153_600_000.0
"""A hundred years, in seconds."""


def check_after(after: float) -> None:
    if not isinstance(after, int | float) or not after <= LONGEST_WAIT:
        raise ConfigError(f"after must be a number of seconds, at most a hundred years, got {after!r}")


def check_status(status: int | None) -> None:
    """Raise `ConfigError` if a status could not be read after it was stored."""
    if status is not None and (type(status) is not int or not -(2**31) <= status < 2**63):
        raise ConfigError(f"status must be a whole number such as 503, got {status!r}")
