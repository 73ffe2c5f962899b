"""Parsing: prepares a page before its handler runs, in a sandbox if the page may be hostile.

HTML parsers take linear time for ordinary pages. Some pages of 60 KiB take seconds and gigabytes: those with thousands of nested
elements, of attributes in one tag, or of formatting elements that are left open. A parser cannot be interrupted, but a process can
be ended. So the worker parses a page only after the sandbox has: another process, with limited CPU time and memory, within limits
that ordinary pages stay far below.

A small page has too few tags and attributes to be hostile. It is parsed on the event loop when its handler asks for it, which costs
less than sending it elsewhere. A larger page is parsed in the sandbox first. A page of 64 KiB or more is then parsed in a thread: the
parser releases the GIL, so the event loop continues.

If the sandbox process cannot be started, or ends for another reason than the page, `LocalFailure` is raised.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from weakref import WeakValueDictionary

from silkline.errors import HostileHtml, LocalFailure
from silkline.fetch.local import local_failure
from silkline.worker import sandbox_child as child

if TYPE_CHECKING:
    from silkline.worker.crawl.page import Page

Engine = Literal["html", "xpath", "article"]

# ── preparing pages ──

LARGE = 64 * 2**10
"""Size in bytes from which pages are parsed in a thread: ordinary HTML of this size takes about a millisecond."""

_MOST: frozenset[Engine] = frozenset(["html"])


class Parser:
    """Prepares the pages of one worker."""

    def __init__(self) -> None:
        self._sandbox = Sandbox()
        self._threads = ThreadPoolExecutor(PROCESSES, "silkline-parser")
        self._engines: dict[str, frozenset[Engine]] = {}
        """The engine of each handler. It is unknown before the handler's first large page; most handlers use CSS selectors."""
        self._readers: set[str] = set()
        """The handlers that read articles."""

    async def prepare(self, page: Page, handler: str, host: str) -> float:
        """Check and parse a page with the parsers that its handler used last. Returns the CPU seconds used outside the loop.

        Raises `HostileHtml` if parsing it costs too much.
        """
        if not page.is_html or (page.is_small and handler not in self._readers):
            return 0.0
        seconds = await self._read_article(page, host) if handler in self._readers else 0.0
        if page.is_small:
            return seconds
        for engine in self._engines.get(handler, _MOST):
            seconds += await self._sandbox.check(page.source, engine, host)
            page.tried.add(engine)
            if len(page.body) >= LARGE:
                loop = asyncio.get_running_loop()
                seconds += await loop.run_in_executor(self._threads, _parse, page, engine)
        return seconds

    async def _read_article(self, page: Page, host: str) -> float:
        """Read the main text in the sandbox, before the handler asks for it."""
        tried = await self._sandbox.run(page.source, "article", host)
        page.set_article(tried.result)
        return tried.seconds

    def learn(self, page: Page, handler: str) -> None:
        """Remember which parsers the handler used. Small pages are ignored, except for articles: parsing them costs little anyway."""
        if not page.is_html:
            return
        if "article" in page.parsed_by:
            self._readers.add(handler)
        if page.tried or not page.is_small:
            self._engines[handler] = self._engines.get(handler, frozenset()) | (page.parsed_by - {"article"})

    def close(self) -> None:
        self._sandbox.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _parse(page: Page, engine: Engine) -> float:
    begun = time.thread_time()
    page.parse(engine)
    return time.thread_time() - begun


# ── the sandbox ──

CPU, CPU_A_BYTE = 0.2, 200e-9
"""CPU seconds that parsing a page may take, and how many more per byte. Ordinary HTML takes about 15 ns per byte."""
MEMORY, MEMORY_A_BYTE = 64 * 2**20, 40
"""Bytes of memory that parsing a page may take, and how many more per byte. Ordinary HTML takes about 12 per byte."""
PROCESSES = 2
"""Pages of one worker that are checked at a time, at most one per host."""
FEW_TAGS, FEW_SEPARATORS, FEW_BOTH = 800, 3_500, 1_300_000
"""Tags of a small page, separators of its attributes, and their product. The worst page within them takes some 200 ms."""
SMALL = 32 * 2**10
_SEPARATORS = b" \n\t\r\f/\"'"
_LETTERS: dict[Engine, bytes] = {"html": b"h", "xpath": b"x", "article": b"a"}
ARTICLE_CPU, ARTICLE_CPU_A_BYTE, MOST_ARTICLE_CPU = 1.0, 2e-6, 10.0
"""CPU seconds that reading the article of a page may take, how many more per byte, and the most. Usually, it takes 0.2 to 1 µs per byte."""
ARTICLE_MEMORY, ARTICLE_MEMORY_A_BYTE = 256 * 2**20, 200


class Tried(NamedTuple):
    """The result of parsing a page in the sandbox."""

    why: str | None
    """Why the page is hostile, or None."""
    seconds: float
    """CPU time that it took."""
    result: bytes = b""
    """The article of the page as JSON, if it was read."""


def is_small(html: bytes) -> bool:
    """Return whether parsing the page is always cheap: it has too few tags and attributes to be hostile."""
    if len(html) > SMALL:
        return False
    tags = html.count(b"<")
    if tags > FEW_TAGS:
        return False
    separators = len(html) - len(html.translate(None, _SEPARATORS))
    return separators <= FEW_SEPARATORS and tags * separators <= FEW_BOTH


class Sandbox:
    """The processes that check the pages of one worker. They are started when they are needed."""

    def __init__(self) -> None:
        self._idle: list[_Process] = []
        self._places = asyncio.Semaphore(PROCESSES)
        self._hosts: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def check(self, html: bytes, engine: Engine, host: str) -> float:
        """Raise `HostileHtml` if parsing *html* costs too much; else return the CPU seconds that it cost.

        Raises `LocalFailure` if the sandbox cannot run on this machine now.
        """
        return (await self.run(html, engine, host)).seconds

    async def run(self, html: bytes, engine: Engine, host: str) -> Tried:
        """Do the same, and return the result."""
        turn = self._hosts.setdefault(host, asyncio.Lock())
        async with turn, self._places:
            process = self._idle.pop() if self._idle else _start()
            try:
                tried = await process.run(html, engine)
            except BaseException:
                process.end()
                raise
            if process.ended:
                process.end()
            else:
                self._idle.append(process)
        if tried.why:
            raise HostileHtml(tried.why, tried.seconds)
        return tried

    def close(self) -> None:
        """End the processes that wait for pages."""
        while self._idle:
            self._idle.pop().end()


def check_now(html: bytes, engine: Engine) -> bytes:
    """Check one page in a separate process, for synchronous code, and return its result; see `Sandbox.run`."""
    process = _start()
    try:
        process.wire.settimeout(None)
        process.wire.sendall(_head(html, engine) + html)
        reply = process.wire.recv(child.REPLY.size, socket.MSG_WAITALL)
        result = process.wire.recv(_result_size(reply), socket.MSG_WAITALL) if _result_size(reply) else b""
        tried = process.read(reply if len(result) == _result_size(reply) else b"", html, engine, result)
    except ConnectionError:
        tried = process.read(b"", html, engine)
    finally:
        process.end()
    if tried.why:
        raise HostileHtml(tried.why, tried.seconds)
    return tried.result


def _start() -> _Process:
    try:
        return _Process()
    except OSError as error:
        raise local_failure(error.errno) or _cannot_try(f"no process can be started: {error.strerror}") from None


def _cannot_try(why: str) -> LocalFailure:
    return LocalFailure(f"pages cannot be checked in the sandbox: {why}", "processes")


class _Process:
    """A sandbox process, and the socket that connects it to the worker."""

    def __init__(self) -> None:
        self.wire, theirs = socket.socketpair()
        self.wire.settimeout(0)
        self.ended = False
        command = [sys.executable, "-I", str(Path(child.__file__)), *sys.path]
        with theirs:
            try:
                self._popen = subprocess.Popen(  # noqa: S603 - a fixed command
                    command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            except BaseException:
                self.wire.close()
                raise

    async def run(self, html: bytes, engine: Engine) -> Tried:
        loop = asyncio.get_running_loop()
        reply, result = b"", b""
        try:
            await loop.sock_sendall(self.wire, _head(html, engine))
            await loop.sock_sendall(self.wire, html)
            reply = await self._receive(child.REPLY.size)
            result = await self._receive(_result_size(reply))
        except ConnectionError:
            reply = b""  # the process has ended; its exit code shows why
        if not reply:
            await asyncio.to_thread(self._popen.wait)
        return self.read(reply, html, engine, result)

    async def _receive(self, size: int) -> bytes:
        loop = asyncio.get_running_loop()
        received = bytearray()
        while len(received) < size:
            piece = await loop.sock_recv(self.wire, min(child.PIECE, size - len(received)))
            if not piece:
                raise ConnectionError
            received += piece
        return bytes(received)

    def read(self, reply: bytes, html: bytes, engine: Engine, result: bytes = b"") -> Tried:
        """Return the result of a reply. An empty one means that the process has ended."""
        seconds, memory = _limits(html, engine)
        size = f"its {len(html):,} bytes"
        if not reply:
            self.ended = True
            code = self._popen.wait()
            if code == -signal.SIGPROF:
                return Tried(f"parsing {size} takes more than {seconds:.2f} s of CPU time", seconds)
            if code >= 0:
                raise _cannot_try(f"the sandbox process exits with code {code}")
            if code == -signal.SIGKILL:  # its own memory limit raises an error in it instead
                raise _cannot_try("the sandbox process was killed, often by the system when memory runs out")
            return Tried(f"parsing {size} crashes the parser", 0.0)
        word, microseconds, _ = child.REPLY.unpack(reply)
        why = f"parsing {size} takes more than {memory // 2**20} MiB of memory" if word != child.PARSED else None
        return Tried(why, microseconds / 1_000_000, result)

    def end(self) -> None:
        self.wire.close()
        self._popen.kill()
        self._popen.wait()


def _result_size(reply: bytes) -> int:
    size: int = child.REPLY.unpack(reply)[2] if reply else 0
    return size


def _limits(html: bytes, engine: Engine) -> tuple[float, int]:
    if engine == "article":
        seconds = min(ARTICLE_CPU + ARTICLE_CPU_A_BYTE * len(html), MOST_ARTICLE_CPU)
        return seconds, ARTICLE_MEMORY + ARTICLE_MEMORY_A_BYTE * len(html)
    return CPU + CPU_A_BYTE * len(html), MEMORY + MEMORY_A_BYTE * len(html)


def _head(html: bytes, engine: Engine) -> bytes:
    seconds, memory = _limits(html, engine)
    return child.REQUEST.pack(_LETTERS[engine], round(seconds * 1000), memory, len(html))
