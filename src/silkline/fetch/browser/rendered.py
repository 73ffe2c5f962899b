"""The response of a page that was rendered, and what was kept of its rendering."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

import msgspec

from silkline.fetch.fetcher import Response


class Captured(msgspec.Struct, frozen=True):
    """A JSON response that a page has loaded: its URL, status and body."""

    url: str
    status: int
    body: bytes

    def json(self) -> Any:
        """Return the body, decoded as JSON. Raises `ValueError` if it is not JSON."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError as error:
            raise ValueError(f"{self.url} is not JSON: {error}") from None


class RenderedResponse(Response, frozen=True):
    """A response whose body is the HTML after the scripts of the page have run.

    - *original*: the response of the web server.
    - *screenshot*: a PNG image of the page, if the rendering says so.
    - *captured*: the JSON responses that the rendering names.
    """

    original: Response | None = None
    screenshot: bytes | None = None
    captured: tuple[Captured, ...] = ()


def can_be_rendered(response: Response) -> bool:
    """Return whether a response can be rendered: it is HTML, and neither a redirect nor an error."""
    kind = (response.headers.get("content-type") or "text/html").lower()
    return 200 <= response.status < 300 and ("html" in kind)


def matches(pattern: str, url: str) -> bool:
    """Return whether a URL matches a pattern such as ``/api/*``, for path and query, or ``https://api.example/*``."""
    if pattern.startswith("/"):
        parts = urlsplit(url)
        url = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return fnmatchcase(url, pattern)
