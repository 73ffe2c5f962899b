"""The program of the sandbox process, which `parsing.py` starts. It imports nothing else of Silkline, so it is small.

It reads messages from its standard input, which is a socket: the engine (one letter), the CPU time in milliseconds, the
memory in bytes, and the page with its length. It replies with one letter, the CPU time that parsing took, in microseconds, and the length
of a result, which follows: the article of a page as JSON, else nothing. When the CPU time is used up, the system ends the process. Its
arguments are the folders in which the worker finds packages.
"""

from __future__ import annotations

import gc
import json
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

REQUEST = struct.Struct("<cIQQ")
REPLY = struct.Struct("<cQQ")
PARSED, TOO_MUCH_MEMORY = b"p", b"m"
WITHOUT_EVENTS = 1
PIECE = 1 << 20


def main() -> None:
    """Parse pages until the worker closes the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the worker
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.disable()
    wire = socket.socket(fileno=0)
    while head := _read(wire, REQUEST.size):
        engine, milliseconds, memory, length = REQUEST.unpack(head)
        page = _read(wire, length)
        word, microseconds, result = _try(_ENGINES[engine](), page, milliseconds / 1000, memory)
        wire.sendall(REPLY.pack(word, microseconds, len(result)))
        wire.sendall(result)


def _try(parse: Callable[[bytes], Any], page: bytes, seconds: float, memory: int) -> tuple[bytes, int, bytes]:
    """Parse the page within its limits. When the CPU time is used up, the process ends here."""
    _limit_memory(memory)
    before = time.thread_time()  # the CPU time of the process does not advance while the timer runs
    signal.setitimer(signal.ITIMER_PROF, seconds)
    result = b""
    try:
        parsed = parse(page)
        result = parsed if isinstance(parsed, bytes) else b""
        word = PARSED
    except Exception:  # noqa: BLE001 - each parser has its own errors, and all of them mean the same here
        word = TOO_MUCH_MEMORY
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        _limit_memory(None)
    return word, round((time.thread_time() - before) * 1_000_000), result


def _limit_memory(more: int | None) -> None:
    """Limit the memory to *more* bytes than the process has now; None for no limit. Some systems cannot limit it."""
    limit = resource.RLIM_INFINITY
    with suppress(OSError, ValueError):
        if more is not None:
            limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _read(wire: socket.socket, count: int) -> bytes:
    """Return exactly *count* bytes; b"" if the worker has ended."""
    pieces = bytearray()
    while len(pieces) < count:
        piece = wire.recv(min(PIECE, count - len(pieces)))
        if not piece:
            return b""
        pieces += piece
    return bytes(pieces)


def _lexbor() -> Callable[[bytes], Any]:
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415 - only the engine that is used

    return lambda page: LexborHTMLParser(page, options=WITHOUT_EVENTS)


def _parsel() -> Callable[[bytes], Any]:
    from parsel import Selector  # noqa: PLC0415 - an extra

    return lambda page: Selector(page.decode(errors="replace"))


def _trafilatura() -> Callable[[bytes], Any]:
    from trafilatura import bare_extraction, load_html  # noqa: PLC0415 - an extra

    def read(page: bytes) -> bytes:
        tree = load_html(page.decode(errors="replace"))
        if tree is None:
            return b"{}"
        language = tree.get("lang") or tree.get("{http://www.w3.org/XML/1998/namespace}lang")
        found = bare_extraction(tree, include_comments=False, with_metadata=True)
        names = {
            "text": "text",
            "title": "title",
            "author": "author",
            "date": "date",
            "site": "sitename",
            "description": "description",
        }
        fields = {name: getattr(found, theirs, None) or "" for name, theirs in names.items()}
        return json.dumps({**fields, "language": getattr(found, "language", None) or language or ""}).encode()

    return read


_ENGINES = {b"h": _lexbor, b"x": _parsel, b"a": _trafilatura}

if __name__ == "__main__":
    sys.path[:] = sys.argv[1:]
    main()
