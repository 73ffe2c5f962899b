"""What a `LocalSite` may answer: values for honest answers, and a way to send any bytes for the others."""

from __future__ import annotations

import mimetypes
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

if TYPE_CHECKING:
    from silkline.testing.site.visits import Visit

HeaderPairs: TypeAlias = "Mapping[str, str] | Iterable[tuple[str, str]]"


class Answer(msgspec.Struct, frozen=True):
    """One honest HTTP answer. Content-Length and Content-Type are added unless *headers* has them.

    ::

        Answer("<h1>Hello</h1>")
        Answer("busy", status=429, headers={"Retry-After": "3"})
        Answer(b"...", headers=[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")], delay=0.5)
    """

    body: str | bytes = b""
    status: int = 200
    headers: HeaderPairs = ()
    delay: float = 0.0
    """Seconds before the first byte is sent."""

    def encode(self, path: str = "/", *, with_body: bool = True, closing: bool = False) -> bytes:
        """The bytes on the wire."""
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


class Prepared(Answer, frozen=True):
    """An answer whose bytes on the wire are made beforehand, for speed. Make it with `prepare`."""

    wire: bytes = b""


def prepare(body: str) -> Prepared:
    """The page *body*, ready to be sent many times."""
    return Prepared(body, wire=Answer(body).encode())


class Wire(Protocol):
    """The connection as a `Raw` answer sees it."""

    async def send(self, data: bytes) -> None:
        """Send, and wait while the client does not read. Ends the answer when the client is gone."""

    def close(self) -> None:
        """Close in order (FIN)."""

    def reset(self) -> None:
        """Cut (RST): what was sent may not even arrive."""


class Raw(msgspec.Struct, frozen=True):
    r"""An answer that sends its own bytes, for what no honest server would send. The connection is closed after it.

    ::

        async def half(wire, visit):
            await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
            wire.reset()

        LocalSite({"/half": Raw(half)})
    """

    play: Callable[[Wire, Visit], Awaitable[None]]


Fixed: TypeAlias = "str | bytes | int | Answer | Raw"
"""HTML, bytes (whose type the path's ending tells), a bare status, or one of the above."""

Route: TypeAlias = "Fixed | Callable[[Visit], Fixed | Awaitable[Fixed]]"
"""What a path answers: the same each time, or what a function (plain or async) makes of the visit."""


def as_answer(fixed: Fixed) -> Answer | Raw:
    """The answer that a short form stands for."""
    if isinstance(fixed, Answer | Raw):
        return fixed
    if isinstance(fixed, int):
        return Answer(_phrase(fixed), status=fixed)
    return Answer(fixed)


def redirect(location: str, status: int = 302) -> Answer:
    """An answer that sends the client to *location*."""
    return Answer(status=status, headers={"Location": location})


def healing(trouble: Fixed, cure: Route, times: int = 1) -> Callable[[Visit], Fixed | Awaitable[Fixed]]:
    """A route that answers *trouble* the first *times* visits and *cure* ever after."""
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
