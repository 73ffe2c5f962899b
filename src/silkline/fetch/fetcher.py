"""Fetching, independent of the HTTP client: the protocol, the headers of a request, and the response."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import msgspec

from silkline.core.request import Request
from silkline.errors import FetchError
from silkline.fetch.decode import ACCEPT_ENCODING


class Headers(Mapping[str, str]):
    """Headers of a response: case-insensitive names, in their order, with repeats.

    ``headers["set-cookie"]`` is the first value, ``headers.get_all("set-cookie")`` are all of them, and ``headers.pairs`` are
    all names and values as they were received. Values are Latin-1 text, as in HTTP.
    """

    __slots__ = ("_first", "_pairs")

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs: tuple[tuple[str, str], ...] | None = tuple(pairs)
        self._first: dict[str, str] | None = None

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """All names and values as they were received."""
        if self._pairs is None:
            self._pairs = self._read()
        return self._pairs

    def _read(self) -> tuple[tuple[str, str], ...]:
        """Read the headers; for clients that do so on first use."""
        return ()

    def _firsts(self) -> dict[str, str]:
        if self._first is None:
            self._first = {name.lower(): value for name, value in reversed(self.pairs)}
        return self._first

    def __getitem__(self, name: str) -> str:
        return self._firsts()[name.lower()]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._firsts()

    def __iter__(self) -> Iterator[str]:
        """Each name once, in lower case, in the order of first appearance."""
        return iter(dict.fromkeys(name.lower() for name, _ in self.pairs))

    def __len__(self) -> int:
        return len(self._firsts())

    def __repr__(self) -> str:
        return f"Headers({list(self.pairs)!r})"

    def get_all(self, name: str) -> list[str]:
        """Return all values of *name*, in their order."""
        wanted = name.lower()
        return [value for found, value in self.pairs if found.lower() == wanted]


class Received(msgspec.Struct, frozen=True):
    """What was sent and received, for archives.

    - *sent*: the headers of the request, without those of the connection.
    - *body*: the body as the server sent it, compressed if it was; *is_cut*: whether the rest was not read.
    - *address*: the IP address of the server; empty behind a proxy.
    """

    sent: tuple[tuple[str, str], ...]
    body: bytes
    is_cut: bool
    address: str = ""


class BodyWriter(Protocol):
    """Takes the body of a file, piece by piece, so that it need not fit into memory."""

    most: int
    """The most bytes that it may have."""

    @property
    def size(self) -> int:
        """The bytes so far."""

    @property
    def is_full(self) -> bool:
        """Whether `flush` should be awaited before the next piece."""

    def add(self, piece: bytes | memoryview) -> None:
        """Take the next piece, decompressed. Raises `ResponseTooLarge` if there are more than *most* bytes."""

    async def flush(self) -> None:
        """Write what is in memory to disk."""

    def discard(self) -> None:
        """Delete all of it, unless it was stored."""


class Response(msgspec.Struct, frozen=True):
    """The response of a web server. A redirect is a response like any other.

    - *url*, *status*, *headers*: as received; *http_version* such as ``HTTP/1.1``.
    - *body*: decompressed bytes. The headers still have the original coding and length.
    - *elapsed*: seconds from the call to the last byte.
    - *received*: what was sent and received, if the fetcher keeps that; see `Fetcher`.
    - *file*: what has the body of a download; *body* may be empty then.
    - *loaded*: bytes that a rendered page has loaded besides its document.
    """

    url: str
    status: int
    headers: Headers
    body: bytes
    elapsed: float
    http_version: str = "HTTP/1.1"
    received: Received | None = None
    file: BodyWriter | None = None
    loaded: int = 0


class Fetcher(Protocol):
    """Fetches pages. One per worker process, used by many attempts at a time.

    If it has a method ``allow_private(allowed: bool)``, the worker calls it when an operator allows or refuses private addresses
    for a crawl that runs; else the worker must be started again for that.

    If it has a method ``keep_received()``, the worker calls it before the first fetch if pages are archived; then responses should
    have their `Received`. Else the archive has decompressed bodies.

    If it has a method ``download(request, *, user_agent, into)``, it is called for files instead of `fetch`, and writes their bodies to
    the `BodyWriter` *into*, which becomes the *file* of the response. Else files are in memory as a whole while they are fetched.
    """

    async def fetch(self, request: Request, *, user_agent: str, cut: int | None = None) -> Response:
        """Return the response to *request*, whatever its status. Raises a `FetchError` with the reason if there is none.

        With *cut*, only the first *cut* bytes of the body are read, and a longer body is no error.

        This makes one HTTP request and follows no redirect: the target becomes another request, with its own host. Cancelling it
        closes the connection.
        """

    async def close(self) -> None:
        """Close the connections."""


# ── headers of a request ──

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
RESERVED = frozenset(["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"])
"""Headers of the connection, which a request cannot set."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_COOKIE_NAME, _COOKIE_VALUE = re.compile(r"[^\x00-\x20\x7f;,=]+"), re.compile(r"[^\x00-\x08\x0a-\x1f\x7f;]*")


def common_headers(user_agent: str) -> dict[str, str]:
    """Return the headers of every request."""
    _check("User-Agent", user_agent)
    return {"User-Agent": user_agent, "Accept": ACCEPT, "Accept-Encoding": ACCEPT_ENCODING}


def make_headers(request: Request, user_agent: str | None, auth: tuple[str, str] | None) -> dict[str, str]:
    """Return all headers of *request*, without those of every request if *user_agent* is None. Its own take precedence.

    Raises a `FetchError` if one cannot be sent.
    """
    headers = common_headers(user_agent) if user_agent is not None else {}
    names = {name.lower(): name for name in headers}
    for name, value in request.headers.items():
        _check(name, value)
        headers.pop(names.get(name.lower(), ""), None)
        headers[name] = value
    if request.cookies:
        given = [headers.pop(name) for name in list(headers) if name.lower() == "cookie"]
        headers["Cookie"] = "; ".join((*(_cookie(name, value) for name, value in request.cookies.items()), *given))
    if (auth := request.auth or auth) is not None:
        headers["Authorization"] = "Basic " + b64encode(":".join(auth).encode()).decode()
    return headers


def _check(name: str, value: str) -> None:
    if name.lower() in RESERVED:
        raise FetchError(f"a request cannot set the header {name}", "bad_request")
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise FetchError(f"the header {name!r} cannot be sent: it contains characters that end a header", "bad_request")


def _cookie(name: str, value: str) -> str:
    if not _COOKIE_NAME.fullmatch(name) or not _COOKIE_VALUE.fullmatch(value):
        raise FetchError(f"the cookie {name!r} cannot be sent: it contains characters that end a cookie", "bad_request")
    return f"{name}={value}"
