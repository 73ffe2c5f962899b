"""The HTTP/1.1 server behind `LocalSite`. It is small and fast, so that it does not limit benchmarks."""

from __future__ import annotations

import asyncio
import inspect
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import cast

from silkline.testing.site.responses import Fixed, Prepared, Raw, Route, SiteResponse, as_response
from silkline.testing.site.visits import Visit, Visits

MAX_HEAD = 1024 * 1024
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, zero seconds
_TCP_INFO = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
_SINCE_DATA = struct.Struct("@52xI")  # the field tcpi_last_data_recv of the kernel's struct tcp_info, in milliseconds
_KERNEL_TICK = 10
"""Resolution of the kernel's clock in milliseconds; shorter times count as zero."""


class ClientLeft(ConnectionError):
    """The client closed the connection during a `Raw` response."""


class SiteState:
    """The state that all connections of a site share: routes, visits, and responses in progress."""

    def __init__(self, find: Callable[[Visit], Route], latency: float) -> None:
        self.find = find
        self.latency = latency
        self.visits = Visits()
        self.busy: Counter[str] = Counter()
        """Responses in progress by host; immediate responses are never counted."""
        self.connections: set[SiteConnection] = set()
        self.accepted = 0
        """Number of connections so far."""
        self.empty = asyncio.Event()

    async def all_left(self) -> None:
        """Wait until no connection is open."""
        self.empty.clear()
        if self.connections:
            await self.empty.wait()


class SiteConnection(asyncio.Protocol):
    """The connection of one client: reads requests and responds to them one after another."""

    def __init__(self, books: SiteState) -> None:
        self._books = books
        self._transport: asyncio.Transport
        self._address = ""
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    # ── asyncio.Protocol ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop has a different class
        self._address = str(transport.get_extra_info("sockname")[0])
        self._socket: socket.socket = transport.get_extra_info("socket")
        self._books.connections.add(self)
        self._books.accepted += 1

    def connection_lost(self, _error: Exception | None) -> None:
        self._books.connections.discard(self)
        if not self._books.connections:
            self._books.empty.set()
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        if self._task is None and not self._buffer and _is_one_plain_get(data):
            self._serve(data, b"")
            return
        self._buffer += data
        if self._task is None:
            self._next_request()

    # ── reading ──

    def _next_request(self) -> None:
        """Respond to the complete requests in the buffer, up to the first response that takes time."""
        while self._task is None and not self._transport.is_closing():
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > MAX_HEAD:
                    self._transport.abort()
                return
            head = bytes(self._buffer[: end + 4])
            body = _body_at(self._buffer, end + 4, Visit(0.0, head).headers)
            if body is None:
                return
            del self._buffer[: body[1]]
            self._serve(head, body[0])

    # ── responding ──

    def _serve(self, head: bytes, body: bytes) -> None:
        books = self._books
        visit = Visit(self._arrived(), head, body, 1, self._address)
        books.visits.add(visit)
        if books.busy:
            visit.in_flight = books.busy[visit.host] + 1
        route = books.find(visit)
        answer: Fixed | Awaitable[Fixed] = route(visit) if callable(route) else route
        if not inspect.isawaitable(answer):
            answer = as_response(answer)
            if isinstance(answer, SiteResponse) and not answer.delay and not books.latency:
                self._write(visit, answer)
                return
        books.busy[visit.host] += 1
        self._task = asyncio.get_running_loop().create_task(self._take_time(visit, answer))

    def _arrived(self) -> float:
        """Return when the request was complete, from the kernel: a busy process may read it late."""
        now = time.monotonic()
        if _TCP_INFO is None:
            return now
        info = self._socket.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _SINCE_DATA.size)
        since: int = _SINCE_DATA.unpack(info)[0]
        return now - since / 1000 if since >= _KERNEL_TICK else now

    async def _take_time(self, visit: Visit, answer: Fixed | Awaitable[Fixed]) -> None:
        """Send a response that needs the event loop: one with a delay, a coroutine, or a `Raw` one."""
        try:
            fixed = as_response(await answer if inspect.isawaitable(answer) else answer)
            delay = self._books.latency + (fixed.delay if isinstance(fixed, SiteResponse) else 0)
            if delay:
                await asyncio.sleep(delay)
            if isinstance(fixed, Raw):
                with suppress(ClientLeft):
                    await fixed.play(self, visit)
                self._transport.close()
            else:
                self._write(visit, fixed)
        finally:
            self._books.busy[visit.host] -= 1
            if not self._books.busy[visit.host]:
                del self._books.busy[visit.host]
            self._task = None
        self._next_request()

    def _write(self, visit: Visit, answer: SiteResponse) -> None:
        closing = b"close" in visit.head and visit.headers.get("connection", "").lower() == "close"
        with_body = not visit.head.startswith(b"HEAD ")
        if isinstance(answer, Prepared) and with_body and not closing:
            self._transport.write(answer.wire)
            return
        self._transport.write(answer.encode(visit.path, with_body=with_body, closing=closing))
        if closing:
            self._transport.close()

    # ── Wire, for Raw responses ──

    async def send(self, data: bytes) -> None:
        if self._transport.is_closing():
            raise ClientLeft
        self._transport.write(data)
        await asyncio.sleep(0)  # an endless response must let other connections run
        await self._writable.wait()

    def close(self) -> None:
        self._transport.close()

    def reset(self) -> None:
        with suppress(OSError):
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    def abandon(self) -> None:
        """Close the connection because the site stops."""
        self._transport.abort()


def _is_one_plain_get(data: bytes) -> bool:
    return data.startswith(b"GET ") and data.find(b"\r\n\r\n") == len(data) - 4


def _body_at(buffer: bytearray, start: int, headers: dict[str, str]) -> tuple[bytes, int] | None:
    """Return the body of the request and its end; None if it is incomplete."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return _chunks_at(buffer, start)
    end = start + int(headers.get("content-length", 0))
    return (bytes(buffer[start:end]), end) if len(buffer) >= end else None


def _chunks_at(buffer: bytearray, start: int) -> tuple[bytes, int] | None:
    body = bytearray()
    while True:
        line_end = buffer.find(b"\r\n", start)
        if line_end < 0:
            return None
        size = int(buffer[start:line_end].split(b";")[0], 16)
        end = line_end + 2 + size + 2
        if len(buffer) < end:
            return None
        if size == 0:
            return bytes(body), end
        body += buffer[line_end + 2 : end - 2]
        start = end
