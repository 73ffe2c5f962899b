"""The limits of a response: its time, its rate, its size, and floods. They apply while it arrives, not when it is complete.

One timer checks the deadlines of all fetches of a process. `read_body` counts the bytes that arrive and those that they are decoded
to, and stops at the limit.

A flood is a server that sends interim responses (1xx) without end, and never a final one. wreq skips interim responses in its own
thread, as fast as they come, and has no limit for them. One such server takes most of that thread until its page times out, and the
pages of all other hosts wait for it. So while a fetch waits for a response, the bytes that its connection has received are read from
the system (Linux only). A connection that receives more than the head of a response may have, again and again, while no response
begins, is a flood, and its fetch is ended.

The sockets belong to wreq, which does not show them. They are found among the descriptors of this process by a mark: each client sets
another number of seconds for TCP keep-alive.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import struct
import sys
import termios
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from itertools import cycle
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from silkline.errors import ConfigError, FetchError, FetchTimeout, ResponseTooLarge
from silkline.fetch.decode import Decoding, too_large
from silkline.fetch.fetcher import BodyWriter, Headers


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on the time, the size and the rate of one response. They are checked while it arrives.

    - *timeout*: seconds from the lookup of the address to the last byte. The ``timeout`` of a request takes precedence.
    - *connect_timeout*: seconds for a connection, TLS included.
    - *max_body*: bytes of the body, compressed as well as decompressed.
    - *max_headers*: bytes of the status line and the headers. A client that reads in large pieces may let one more piece pass.
    - *min_rate*: the least bytes per second of the body, over each window of *min_rate_window* seconds; 0 for no limit.
    """

    timeout: float = 30.0
    connect_timeout: float = 10.0
    max_body: int = 16 * 2**20
    max_headers: int = 64 * 2**10
    min_rate: int = 100
    min_rate_window: float = 10.0

    def __post_init__(self) -> None:
        for name in ("timeout", "connect_timeout", "max_body", "max_headers", "min_rate_window"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be above 0, got {getattr(self, name)}")
        if self.min_rate < 0:
            raise ConfigError(f"min_rate must be at least 0, got {self.min_rate}")


# ── time ──

TICK = 0.1
"""Seconds between two checks: a deadline is never early, and at most this late."""


class DeadlineTimer:
    """Checks all fetches in progress ten times a second, and stops those that take too long.

    A timer of the event loop for each fetch would cost a quarter of the fetch itself.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.floods = FloodDetector(limits.max_headers)
        self._deadlines: set[Deadline] = set()
        self._ticking: asyncio.TimerHandle | None = None

    def over(self, host: str, timeout: float | None) -> Deadline:
        """Return a context that raises `FetchTimeout` if it takes too long."""
        return Deadline(self, host, self.limits.timeout if timeout is None else timeout)

    def add(self, deadline: Deadline) -> None:
        self._deadlines.add(deadline)
        if self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(TICK, self._tick)

    def remove(self, deadline: Deadline) -> None:
        self._deadlines.discard(deadline)

    def _tick(self) -> None:
        now = time.monotonic()
        for deadline in list(self._deadlines):
            deadline.look(now)
        self._end_floods(now)
        loop = asyncio.get_running_loop()
        self._ticking = loop.call_later(TICK, self._tick) if self._deadlines else None

    def _end_floods(self, now: float) -> None:
        waiting: dict[PendingResponse, Deadline] = {}  # the first one that began
        for deadline in self._deadlines:
            if (what := deadline.waits_for) and now - deadline.sent >= LOOK_EVERY:
                first = waiting.get(what)
                if first is None or deadline.sent < first.sent:
                    waiting[what] = deadline
        reading = {deadline.connection for deadline in self._deadlines if deadline.connection} if waiting else set()
        for what, received in self.floods.find(now, set(waiting), reading).items():
            waiting[what].flooded(received)

    def close(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None


class Deadline:
    """The time limits of one fetch; a context manager. Works as `asyncio.timeout` does, by cancelling its task."""

    __slots__ = (
        "_before",
        "_error",
        "_host",
        "_mark",
        "_task",
        "_timeout",
        "_timer",
        "_window",
        "connection",
        "doing",
        "got",
        "sent",
        "start",
        "waits_for",
    )  # fmt: skip

    def __init__(self, timer: DeadlineTimer, host: str, timeout: float) -> None:
        self._timer = timer
        self._host = host
        self._timeout = timeout
        self._error: FetchError | None = None
        self._window: float | None = None
        self._mark = 0
        self.doing = "looking up the address"
        self.got = 0
        """Bytes of the body received so far, before decoding."""
        self.sent = 0.0
        """When it began to wait for the response."""
        self.waits_for: PendingResponse | None = None
        """What it waits for, while no response has begun."""
        self.connection: ClientConnection | None = None
        """The connection of the response."""

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._before = task.cancelling()
        self.start = time.monotonic()
        self._timer.add(self)
        return self

    def waiting(self, what: PendingResponse | None = None) -> None:
        """Note that the request is sent. Without *what*, floods of interim responses are not detected."""
        self.doing = "waiting for the response"
        self.sent = time.monotonic()
        self.waits_for = what

    def answered(self, local_port: int | None) -> None:
        """Note that a response has begun, on the connection from this port."""
        if self.waits_for and local_port is not None:
            self.connection = ClientConnection(self.waits_for, local_port)
            self._timer.floods.answered(self.connection)
        self.waits_for = None

    def flooded(self, received: int) -> None:
        """Stop the fetch: the server has sent *received* bytes, and no response among them."""
        if self._error is None:
            self._stop(
                FetchError(f"{self._host} sent {received:,} bytes of interim responses and no final one", "flood")
            )

    def reading_body(self) -> None:
        """Note that the body is read: from now on, the rate is checked."""
        self.doing = "reading the body"
        self._window = time.monotonic()

    def look(self, now: float) -> None:
        """Stop the fetch if its time is over, or if a window ended with too few bytes."""
        if self._error is not None:
            return
        if now - self.start >= self._timeout:
            self._stop(FetchTimeout(f"{self._host} did not finish within {self._timeout:g} s ({self._state()})"))
            return
        limits = self._timer.limits
        if self._window is not None and now - self._window >= limits.min_rate_window:
            rate = (self.got - self._mark) / (now - self._window)
            if rate < limits.min_rate:
                slow = f"{self._host} sends {rate:.0f} bytes per second; the minimum is {limits.min_rate}"
                self._stop(FetchTimeout(slow, "slow"))
            self._window, self._mark = now, self.got

    def _state(self) -> str:
        return f"{self.doing}, {self.got} bytes so far" if self.got else self.doing

    def _stop(self, error: FetchError) -> None:
        self._error = error
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._timer.remove(self)
        # Only this deadline's own cancellation becomes an error. If the task was cancelled otherwise as well, that is raised.
        if self._error is not None and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise self._error from None


# ── size ──

MANY_PIECES = 4096
CRUMB = 64
"""A body of more than 4,096 pieces with fewer than 64 bytes on average is an attack: it keeps the worker busy."""

TURN = 0.005
"""Seconds after which decoding continues in a thread."""

_DATA = (bytes, memoryview)


def check_headers(headers: Headers, limits: Limits) -> None:
    """Raise `ResponseTooLarge` if the headers are too large in total."""
    size = sum([len(name) + len(value) + 4 for name, value in headers.pairs])
    if size > limits.max_headers:
        raise ResponseTooLarge(f"the headers have {size} bytes; the limit is {limits.max_headers}")


def check_length(length: int | None, most: int) -> None:
    """Raise `ResponseTooLarge` if the declared length of a body is above *most*."""
    if length is not None and length > most:
        raise ResponseTooLarge(f"the body has {length} bytes; the limit is {most}")


async def read_body(
    pieces: AsyncIterator[Any],
    coding: str | None,
    limits: Limits,
    deadline: Deadline,
    cut: int | None = None,
    *,
    keep: bool = False,
    into: BodyWriter | None = None,
) -> BodyBuffer:
    """Read and decode the body: the whole, or its first *cut* bytes, which may be more than the limit.

    *pieces* are bytes or memoryviews as they were sent; all else (trailers) is skipped. With *keep*, the buffer keeps them too. With
    *into*, the body is written there instead, and may have as many bytes as that permits.
    """
    if cut is not None and cut > limits.max_body:
        limits = msgspec.structs.replace(limits, max_body=cut)
    body = BodyBuffer(limits.max_body if cut is None else cut)
    if into is not None:
        body = FileBody(into, limits.max_body)
        limits = msgspec.structs.replace(limits, max_body=into.most)
    if keep and (coding is not None or into is not None):
        body.sent = []
    try:
        await _read_pieces(pieces, coding, limits, deadline, body, into)
    except BaseException as error:
        if cut is None or not isinstance(error, ResponseTooLarge):
            body.drop()  # the traceback of an error may keep it for a long time
            raise
        body.is_cut = True
    return body


async def _read_pieces(
    pieces: AsyncIterator[Any],
    coding: str | None,
    limits: Limits,
    deadline: Deadline,
    body: BodyBuffer,
    into: BodyWriter | None,
) -> None:
    decoding = Decoding(coding, limits.max_body) if coding is not None else None
    count = got = 0
    deadline.reading_body()
    async for piece in pieces:
        if isinstance(piece, _DATA):
            count += 1
            got += len(piece)
            deadline.got = got
            if body.sent is not None:
                body.keep(piece)
            if decoding is None:
                body.add(piece)
            else:
                await _decode(decoding, piece, body)
            if into is not None and into.is_full:
                await into.flush()
            if got > limits.max_body or count > MANY_PIECES:
                _check_sent(got, count, limits)
    if decoding is not None and got:
        decoding.finish()


async def _decode(decoding: Decoding, piece: bytes | memoryview, body: BodyBuffer) -> None:
    """Decode the next piece. If that takes long, the rest is decoded in a thread, and the event loop continues."""
    since, steps = perf_counter(), decoding.feed(piece)
    for decoded in steps:
        if decoded:
            body.add(decoded)
        if perf_counter() - since > TURN:
            await asyncio.to_thread(_take_all, steps, body)
            return


def _take_all(steps: Iterator[bytes], body: BodyBuffer) -> None:
    for decoded in steps:
        if decoded:
            body.add(decoded)


def _check_sent(size: int, count: int, limits: Limits) -> None:
    if size > limits.max_body:
        raise too_large(limits.max_body)
    if size < count * CRUMB:
        raise FetchError(f"the body arrives in tiny pieces: {count} pieces for {size} bytes", "protocol")


class BodyBuffer:
    """The decoded bytes of a body, up to a limit."""

    __slots__ = ("_cap", "_pieces", "_size", "is_cut", "sent")

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._size = 0
        self._pieces: list[bytes | memoryview] = []
        self.is_cut = False
        """Whether there was more to read."""
        self.sent: list[bytes | memoryview] | None = None
        """The pieces before they were decoded, if they are kept and there is a coding."""

    def add(self, piece: bytes | memoryview) -> None:
        self._size += len(piece)
        if self._size > self._cap:
            self._pieces.append(piece[: self._cap - self._size])
            raise too_large(self._cap)
        self._pieces.append(piece)

    def keep(self, piece: bytes | memoryview) -> None:
        """Keep a piece as it was sent."""
        assert self.sent is not None
        self.sent.append(piece)

    @property
    def lacks_rest(self) -> bool:
        """Whether `received` returns only the first part of what was sent."""
        return self.is_cut

    def drop(self) -> None:
        """Drop what has been read. A thread that still decodes ends with its next step."""
        self._cap = 0
        self._pieces = []
        self.sent = None

    def whole(self) -> bytes:
        pieces = self._pieces
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)

    def received(self, decoded: bytes) -> bytes:
        """Return the body as it was sent; *decoded* is the whole of this buffer."""
        return decoded if self.sent is None else b"".join(self.sent)


class FileBody(BodyBuffer):
    """The body of a file, which is written elsewhere. At most *most_kept* bytes are kept as they were sent."""

    __slots__ = ("_into", "_lacks_rest", "_room")

    def __init__(self, into: BodyWriter, most_kept: int) -> None:
        super().__init__(into.most)
        self._into = into
        self._room = most_kept
        self._lacks_rest = False

    def add(self, piece: bytes | memoryview) -> None:
        self._into.add(piece)

    def keep(self, piece: bytes | memoryview) -> None:
        kept = piece[: self._room]
        self._room -= len(kept)
        self._lacks_rest = self._lacks_rest or len(kept) < len(piece)
        super().keep(kept)

    @property
    def lacks_rest(self) -> bool:
        return self._lacks_rest


# ── floods ──

MARKS = range(1_000, 32_000)
"""Seconds of TCP keep-alive: longer than any connection is kept, and no more than the system allows."""
LOOK_EVERY = 0.25
"""Seconds between two checks of the sockets, while a fetch has waited for at least as long."""
MOST_TIME = 200
"""The next check follows after at least this multiple of the duration of the last one."""
STRIKES = 2
"""Checks in a row that must find too many bytes. At the first, a response may have begun that this process has not seen yet."""
BUFFERED = 64 * 1024
"""Bytes besides the head that a client may have read ahead, including the TLS handshake."""

_SUPPORTED = sys.platform == "linux"
_TCP_INFO_SIZE, _BYTES_RECEIVED = 192, 128


class PendingResponse(NamedTuple):
    """Identifies a fetch that waits for its response: the mark of its client, and the port of the server."""

    mark: int
    port: int


class ClientConnection(NamedTuple):
    """A connection of this process: its client and the port of the server, and the local port."""

    waiting: PendingResponse
    local_port: int


class KeepaliveMarks:
    """Hands out the numbers that identify the sockets of clients."""

    def __init__(self) -> None:
        self._marks = cycle(MARKS)

    def next(self) -> int:
        return next(self._marks)


class _Seen(NamedTuple):
    received: int
    strikes: int


class FloodDetector:
    """Finds connections that receive too much without a response.

    *most* is the size in bytes that the head of a response may have.
    """

    def __init__(self, most: int) -> None:
        self._most = most + BUFFERED
        self._seen: dict[ClientConnection, _Seen] = {}
        self._answered: set[ClientConnection] = set()
        self._next = 0.0

    def answered(self, connection: ClientConnection) -> None:
        """Note that a response has begun: what the connection receives now may be its body."""
        self._answered.add(connection)

    def find(
        self, now: float, waiting: set[PendingResponse], reading: set[ClientConnection]
    ) -> dict[PendingResponse, int]:
        """Return the bytes received instead of a response, for each flood. *reading* are connections with a body in progress."""
        if not waiting or not _SUPPORTED:
            self._seen.clear()
            self._answered.clear()
            return {}
        if now < self._next:
            return {}
        begun = time.monotonic()
        floods = dict(self._judge(_received({one.mark for one in waiting}), waiting, reading))
        self._next = now + max(LOOK_EVERY, MOST_TIME * (time.monotonic() - begun))
        return floods

    def _judge(
        self,
        received: Iterable[tuple[ClientConnection, int]],
        waiting: set[PendingResponse],
        reading: set[ClientConnection],
    ) -> Iterator[tuple[PendingResponse, int]]:
        seen: dict[ClientConnection, _Seen] = {}
        for connection, size in received:
            if connection in reading:
                continue
            before = self._seen.get(connection)
            if before is None or connection in self._answered:
                seen[connection] = _Seen(size, 0)
                continue
            strikes = before.strikes + 1 if size - before.received > self._most else 0
            seen[connection] = _Seen(size, strikes)
            if strikes >= STRIKES and connection.waiting in waiting:
                yield connection.waiting, size
        self._seen = seen
        self._answered.clear()


def _received(marks: set[int]) -> Iterator[tuple[ClientConnection, int]]:
    """Yield the sockets of these clients, and how many bytes each has received and passed on."""
    try:
        descriptors = os.listdir("/proc/self/fd")  # noqa: PTH208 - a thousand paths would cost more than the sockets
    except OSError:  # no descriptor is left to read them with
        return
    for descriptor in map(int, descriptors):
        with suppress(OSError):  # another kind of file, or closed meanwhile
            found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=descriptor)
            try:
                mark = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
                if mark in marks:
                    yield _connection(found, mark), _read_from(found)
            finally:
                found.detach()  # the socket belongs to the client


def _connection(found: socket.socket, mark: int) -> ClientConnection:
    return ClientConnection(PendingResponse(mark, found.getpeername()[1]), found.getsockname()[1])


def _read_from(found: socket.socket) -> int:
    info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
    received: int = struct.unpack_from("=Q", info, _BYTES_RECEIVED)[0] if len(info) >= _BYTES_RECEIVED + 8 else 0
    unread: int = struct.unpack("i", fcntl.ioctl(found.fileno(), termios.FIONREAD, bytes(4)))[0]
    return received - unread
