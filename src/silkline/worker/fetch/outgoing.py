"""What we send: the headers of a request, made the same way for every client."""

from __future__ import annotations

import re
from base64 import b64encode

from silkline.core.errors import FetchError
from silkline.core.request import Request
from silkline.worker.fetch.decode import ACCEPT_ENCODING

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
NOT_YOURS = frozenset(["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"])
"""They describe the connection, which the guard and the client decide."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_COOKIE = re.compile(r"[^\x00-\x20\x7f;,]*")


def is_plain(request: Request) -> bool:
    """Whether the request adds nothing to the headers every request has."""
    return not request.headers and not request.cookies and request.auth is None


def common_headers(user_agent: str) -> dict[str, str]:
    """The headers every request has."""
    _check("User-Agent", user_agent)
    return {"User-Agent": user_agent, "Accept": ACCEPT, "Accept-Encoding": ACCEPT_ENCODING}


def make_headers(request: Request, user_agent: str, auth: tuple[str, str] | None) -> dict[str, str]:
    """All headers of *request*: its own go before ours. Raises when one could not be sent as it is."""
    headers = common_headers(user_agent)
    names = {name.lower(): name for name in headers}
    for name, value in request.headers.items():
        _check(name, value)
        headers.pop(names.get(name.lower(), ""), None)
        headers[name] = value
    if request.cookies:
        headers["Cookie"] = "; ".join(_cookie(name, value) for name, value in request.cookies.items())
    if (auth := request.auth or auth) is not None:
        headers["Authorization"] = "Basic " + b64encode(":".join(auth).encode()).decode()
    return headers


def _check(name: str, value: str) -> None:
    if name.lower() in NOT_YOURS:
        raise FetchError(f"the header {name} is not a request's to set", "bad_request")
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise FetchError(f"the header {name!r} cannot be sent: it holds characters that end a header", "bad_request")


def _cookie(name: str, value: str) -> str:
    if not name or "=" in name or not _COOKIE.fullmatch(name) or not _COOKIE.fullmatch(value):
        raise FetchError(f"the cookie {name!r} cannot be sent: it holds characters that end a cookie", "bad_request")
    return f"{name}={value}"
