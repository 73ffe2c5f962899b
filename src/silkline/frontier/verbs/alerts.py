"""The alerts of a crawl as they are stored: which of them fire, and which changes the webhook has not accepted yet.

The worker that evaluates them holds a lock, and stores them like the position in a feed: with its fencing token, so that one that has
lost the lock changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

ALERTS = "alerts"
"""The name under which they are stored."""


class AlertState(msgspec.Struct, frozen=True):
    """One alert of a crawl.

    - *rule*: as in the file or the options, such as ``error-rate=20%``. *text*: why it fires, or did.
    - *since*: the unix time of its last change. *pending*: whether the webhook has not accepted that change yet.
    """

    rule: str
    firing: bool = False
    text: str = ""
    since: float = 0.0
    pending: bool = False


_decoder = msgspec.json.Decoder(tuple[AlertState, ...])


def pack_alerts(states: Sequence[AlertState]) -> bytes:
    return msgspec.json.encode(list(states))


def read_alerts(stored: bytes) -> tuple[AlertState, ...]:
    """Return what is stored; nothing for what a later version has stored in another form."""
    try:
        return _decoder.decode(stored) if stored else ()
    except msgspec.DecodeError:
        return ()
