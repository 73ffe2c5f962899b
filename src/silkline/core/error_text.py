"""The text of an error whose class may be the user's."""

from __future__ import annotations


def message_of(error: BaseException) -> str:
    """Return the message of an error. Its class may be the user's, so reading it may raise."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever the user's code raises
        return "(its message cannot be read)"
