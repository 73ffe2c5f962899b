"""Exchange: a request and its response as they went over the wire, for archives."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

Pairs = Sequence[tuple[str, str]]
"""Names and values of headers, in their order."""


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A request and its response.

    - *method*, *url*, *sent*, *request_body*: the request; *sent* are its headers.
    - *status*, *headers*, *http_version*: the head of the response.
    - *body*: the body without its transfer coding. It is compressed as the server sent it, unless *is_decoded*.
    - *is_cut*: whether the rest of the body was not read.
    - *began*: the unix time at which the fetch began; *address*: the IP address of the server, "" if unknown.
    """

    method: str
    url: str
    sent: Pairs
    request_body: bytes
    status: int
    headers: Pairs
    http_version: str
    body: bytes
    is_decoded: bool
    is_cut: bool
    began: float
    address: str
