"""Responses of a `LocalSite`: regular HTTP responses, and `Raw` ones that send any bytes."""

from __future__ import annotations

import mimetypes
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Protocol, TypeAlias

import msgspec

from silkline.testing.site.visits import Visit

HeaderPairs: TypeAlias = "Mapping[str, str] | Iterable[tuple[str, str]]"


class SiteResponse(msgspec.Struct, frozen=True):
    """A regular HTTP response with *status* and *body*, sent after *delay* seconds.

    Content-Length and Content-Type are added unless *headers* contains them.

    ::

        SiteResponse("<h1>Hello</h1>")
        SiteResponse("busy", status=429, headers={"Retry-After": "3"})
        SiteResponse(b"...", headers=[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")], delay=0.5)
    """

    body: str | bytes = b""
    status: int = 200
    headers: HeaderPairs = ()
    delay: float = 0.0

    def encode(self, path: str = "/", *, with_body: bool = True, closing: bool = False) -> bytes:
        """Return the bytes of the response."""
        body = self.body.encode() if isinstance(self.body, str) else self.body
        pairs = self.headers.items() if isinstance(self.headers, Mapping) else self.headers
        lines = [f"HTTP/1.1 {self.status} {_phrase(self.status)}"]
        lines += [f"{name}: {value}" for name, value in pairs]
        given = "\n".join(lines).lower()
        if "\ncontent-length:" not in given and self.status not in (204, 304):
            lines.append(f"Content-Length: {len(body)}")
        if body and "\ncontent-type:" not in given:
            lines.append(f"Content-Type: {_content_type(path)}")
        if closing:
            lines.append("Connection: close")
        head = "\r\n".join([*lines, "\r\n"]).encode("latin-1")
        return head + body if with_body else head


class Prepared(SiteResponse, frozen=True):
    """A response that is encoded in advance, for speed. Create it with `prepare`."""

    wire: bytes = b""


def prepare(body: str) -> Prepared:
    """Return a page with the given *body*, encoded in advance."""
    return Prepared(body, wire=SiteResponse(body).encode())


class Wire(Protocol):
    """The connection of a `Raw` response."""

    async def send(self, data: bytes) -> None:
        """Send data; wait while the client does not read. Ends the response if the client disconnects."""

    def close(self) -> None:
        """Close the connection (FIN)."""

    def reset(self) -> None:
        """Reset the connection (RST): sent data may not arrive."""


class Raw(msgspec.Struct, frozen=True):
    r"""A response that sends arbitrary bytes, to simulate broken servers. The connection is closed after *play*.

    ::

        async def half(wire, visit):
            await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
            wire.reset()

        LocalSite({"/half": Raw(half)})
    """

    play: Callable[[Wire, Visit], Awaitable[None]]


Fixed: TypeAlias = "str | bytes | int | SiteResponse | Raw"
"""HTML, bytes (with a content type by the suffix of the path), a status, or one of the above."""

Route: TypeAlias = "Fixed | Callable[[Visit], Fixed | Awaitable[Fixed]]"
"""The response of a path: a fixed one, or a function (plain or async) that takes the visit and returns one."""


def as_response(fixed: Fixed) -> SiteResponse | Raw:
    """Return the response that a short form stands for."""
    if isinstance(fixed, SiteResponse | Raw):
        return fixed
    if isinstance(fixed, int):
        return SiteResponse(_phrase(fixed), status=fixed)
    return SiteResponse(fixed)


def redirect(location: str, status: int = 302) -> SiteResponse:
    """Return a redirect to *location*."""
    return SiteResponse(status=status, headers={"Location": location})


def healing(trouble: Fixed, cure: Route, times: int = 1) -> Callable[[Visit], Fixed | Awaitable[Fixed]]:
    """Return a route that responds with *trouble* to the first *times* visits and with *cure* afterwards."""
    left = times

    def answer(visit: Visit) -> Fixed | Awaitable[Fixed]:
        nonlocal left
        if left > 0:
            left -= 1
            return trouble
        return cure(visit) if callable(cure) else cure

    return answer


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def _content_type(path: str) -> str:
    kind = mimetypes.guess_type(path.partition("?")[0])[0] or "text/html"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
