"""The guard for a browser: a proxy on loopback, and the only way from the browser to the network.

The browser looks up no names and opens no other connections. The proxy looks up each host with the guard, and connects only to an
address that was checked, so a page reaches no private address: not by a redirect, a frame, a WebSocket, IPv6 or a name that changes its
address. HTTPS stays encrypted between the browser and the web server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import NamedTuple, Protocol

from silkline.errors import FetchError, ForbiddenAddress, HostUnreachable, LocalFailure
from silkline.fetch.guard import FetchTarget, Guard, read_target

MOST_HEAD = 256 * 1024
"""Bytes of the head of a request. Chromium's own limit is the same."""
PIECE = 64 * 1024
CONNECT_TIMEOUT = 10.0
MOST_REFUSALS = 100
_OF_THE_CONNECTION = frozenset(
    {"connection", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "upgrade"}
)
_GONE = (OSError, EOFError, asyncio.LimitOverrunError)
"""A side has closed its connection, or sends something that is no request."""


class Connection(NamedTuple):
    """A connection to a web server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    proxy_login: str | None = None
    """If it leads to an HTTP proxy that passes on requests: the header with the login, or an empty text."""


class Dial(Protocol):
    """Opens connections for a browser."""

    async def __call__(self, target: FetchTarget, *, tunnel: bool) -> Connection:
        """Return a connection to a host, or to a proxy; with *tunnel*, bytes go to the host. Raises a `FetchError` or a `LocalFailure`."""


class Head(NamedTuple):
    """The head of a request to a proxy."""

    method: str
    url: str
    fields: list[tuple[str, str]]

    @property
    def length(self) -> int:
        """Bytes of the body."""
        found = [value for name, value in self.fields if name.lower() == "content-length"]
        if any(name.lower() == "transfer-encoding" for name, _ in self.fields):
            raise EOFError("a request without a length")
        return int(found[0]) if found and found[0].isascii() and found[0].isdigit() else 0

    @property
    def origin(self) -> str:
        """Scheme, host and port, as they are written."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{rest.partition('/')[0].partition('?')[0]}"

    def to_server(self, proxy_login: str | None) -> bytes:
        """Return the head as the web server gets it, or a proxy if there is a login for one."""
        path = self.url[len(self.origin) :]
        path = path if path.startswith("/") else f"/{path}"
        if proxy_login is not None:
            path = self.origin + path
        kept = [f"{name}: {value}" for name, value in self.fields if name.lower() not in _OF_THE_CONNECTION]
        kept += [proxy_login] if proxy_login else []
        return "\r\n".join([f"{self.method} {path} HTTP/1.1", *kept, "Connection: keep-alive", "", ""]).encode(
            "latin-1"
        )


class GuardDial:
    """Connects to the addresses that a guard has checked."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def __call__(self, target: FetchTarget, *, tunnel: bool) -> Connection:  # noqa: ARG002 - of the protocol
        """See `Dial`."""
        error: Exception | None = None
        for address in await self._guard.addresses(target):
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    return Connection(*await asyncio.open_connection(str(address), target.port, limit=PIECE))
            except OSError as failure:  # also TimeoutError
                error = failure
        raise HostUnreachable(f"no connection to {target.host}:{target.port}: {error}")


class GuardProxy:
    """A proxy for one browser context."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._most = 0
        self._on_too_much: Callable[[], None] = _nothing
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.received = 0
        """Bytes from web servers."""
        self.refused: dict[str, str] = {}
        """The hosts to which the guard has refused connections, and why."""

    async def start(self) -> str:
        """Listen on a port that the system chooses, and return the URL of the proxy."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=MOST_HEAD)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def begin(self, most: int, on_too_much: Callable[[], None]) -> None:
        """Count from 0, for the next page. *on_too_much* is called once when more than *most* bytes have arrived."""
        self._most, self._on_too_much, self.received = most, on_too_much, 0
        self.refused.clear()

    async def close(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(Connection(reader, writer)))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, browser: Connection) -> None:
        server = None
        try:
            head = await _read_head(browser.reader)
            server = await self._connect(head, browser)
            if server is None:
                return
            if head.method == "CONNECT":
                browser.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _first(self._pump(server, browser), _pass_on(browser, server))
            else:
                await _first(self._pump(server, browser), _pass_requests_on(head, browser, server))
        except _GONE:
            pass
        finally:
            for connection in (browser, server):
                if connection is not None:
                    connection.writer.close()

    async def _connect(self, head: Head, browser: Connection) -> Connection | None:
        """Return a connection to the host of a request; None, after an error reply, if there is none."""
        target = None
        try:
            target = read_target(f"https://{head.url}/" if head.method == "CONNECT" else head.url)
            if head.method != "CONNECT" and not head.url.lower().startswith("http://"):
                raise ForbiddenAddress("a proxy gets requests for http:// only")
            return await self._dial(target, tunnel=head.method == "CONNECT")
        except (FetchError, LocalFailure) as error:
            if isinstance(error, ForbiddenAddress) and len(self.refused) < MOST_REFUSALS:
                self.refused.setdefault(target.host if target else head.url[:200], str(error))
            status = "403 Forbidden" if isinstance(error, ForbiddenAddress) else "502 Bad Gateway"
            browser.writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            return None

    async def _pump(self, server: Connection, browser: Connection) -> None:
        """Pass on what a web server sends."""
        while piece := await server.reader.read(PIECE):
            before, self.received = self.received, self.received + len(piece)
            if self.received > self._most:
                if before <= self._most:
                    self._on_too_much()
                return
            browser.writer.write(piece)
            await browser.writer.drain()


def _nothing() -> None:
    """Do nothing: no page has begun."""


async def _pass_on(browser: Connection, server: Connection) -> None:
    while piece := await browser.reader.read(PIECE):
        server.writer.write(piece)
        await server.writer.drain()


async def _pass_requests_on(head: Head, browser: Connection, server: Connection) -> None:
    """Pass on the requests for one host. The connection ends when the browser asks for another one."""
    origin = head.origin
    while head.origin == origin and head.method != "CONNECT":
        server.writer.write(head.to_server(server.proxy_login))
        left = head.length
        while left:
            piece = await browser.reader.read(min(left, PIECE))
            if not piece:
                return
            left -= len(piece)
            server.writer.write(piece)
            await server.writer.drain()
        await server.writer.drain()
        head = await _read_head(browser.reader)


async def _read_head(reader: asyncio.StreamReader) -> Head:
    """Read the head of a request. Raises `EOFError` if there is none."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    fields = [line.partition(":") for line in lines[1:] if line]
    if len(parts) != 3 or not all(colon for _, colon, _ in fields):
        raise EOFError("not a request")
    return Head(parts[0], parts[1], [(name.strip(), value.strip()) for name, _, value in fields])


async def _first(*directions: Coroutine[None, None, None]) -> None:
    """Wait until one direction of a connection has ended."""
    tasks = [asyncio.create_task(direction) for direction in directions]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, *_GONE):
                await task
