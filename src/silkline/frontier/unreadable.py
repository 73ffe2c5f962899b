"""Crawls that cannot be read: stored by a later version, or damaged. They must not hide what is told of the others."""

from __future__ import annotations

import msgspec

from silkline.core.errors import FrontierError, SilklineError

NOT_AS_STORED = (LookupError, ValueError, TypeError, msgspec.MsgspecError)
"""What reading raises where something is stored that we never wrote."""


def unreadable(name: str, error: Exception) -> SilklineError:
    """The error to tell of a crawl; only for those of ours and for `NOT_AS_STORED`."""
    if isinstance(error, SilklineError):
        return error
    return FrontierError(
        f"what is stored of it is damaged ({type(error).__name__}: {error}); silkline fsck {name} looks for damage"
    )
