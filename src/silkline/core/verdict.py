"""Verdicts: how a lease ends. `settle` takes pairs of a lease and one of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from silkline.core.request import Request


class Complete(msgspec.Struct, frozen=True):
    """Finished well; *links* were found on the page."""

    links: Sequence[Request | str] = ()


class RetryIn(msgspec.Struct, frozen=True):
    """Try again *after* seconds; with *block_host* the whole host waits that long (`Retry-After`)."""

    after: float
    reason: str = ""
    status: int | None = None
    block_host: bool = False


class Bury(msgspec.Struct, frozen=True):
    """Give up: the request becomes a dead letter."""

    reason: str
    status: int | None = None


class Release(msgspec.Struct, frozen=True):
    """Give back unused, to be handed out again *after* seconds; costs no attempt."""

    after: float = 0.0


Verdict = Complete | RetryIn | Bury | Release
