"""A process that runs the tasks with ``cpu=True`` of one worker, one call at a time: ``python -m silkline.tasks.child``.

It reads calls from stdin and writes replies to stdout. It loads the file of a task, and runs only what is registered there. It ends
with its worker, also in the middle of a call.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import msgspec

from silkline.core.error_text import message_of
from silkline.core.retries import RetryLater
from silkline.core.units import format_bytes
from silkline.errors import RequestError
from silkline.frontier.verbs.results import encode_result
from silkline.tasks.app import Task, Tasks
from silkline.tasks.progress import reporting_to
from silkline.tasks.spec import TaskSpec

LENGTH = 4
"""Bytes of the length before each call and each reply."""
BEGUN = b"\x06"
"""Written before a call runs, so that the worker knows whether a process died because of it."""
MAIN = "__silkline_main__"
"""The name under which a program is loaded, so that it does not run as a program."""


PROGRESS, ENDED = b"\x07", b"\x04"
"""Before each message after that: a progress, or the reply."""
REPORT_EVERY = 0.1
"""Seconds between two messages about the progress of a call."""


class Call(msgspec.Struct):
    """A call, as the worker sends it."""

    module: str
    file: str
    queue: str
    """The name of the application, if the file defines this task twice."""
    task: str
    keep: bool
    """Whether its result is stored."""
    path: list[str]
    redis: str | None
    """The server of the worker, for further calls."""
    memory: int | None
    """Bytes that the process may use."""
    arguments: bytes


class Reply(msgspec.Struct):
    """The end of a call: its result, or its error."""

    result: bytes = b""
    refused: str = ""
    """Why the result cannot be stored."""
    error: str = ""
    """The class of the exception that the function raised."""
    message: str = ""
    traceback: str = ""
    later: bool = False
    """Whether the function asked for another attempt, *after* seconds."""
    after: float | None = None
    missing: str = ""
    """The module that the function could not import."""


def main() -> None:
    """Run calls until the worker ends."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a task prints is not a reply
    calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
    threading.Thread(target=_read_calls, args=(sys.stdin.buffer, calls), daemon=True).start()
    while True:
        call = calls.get()
        replies.write(BEGUN)
        replies.flush()
        progress = ProgressWriter(replies)
        with reporting_to(progress.report):
            reply = _run(call)
        progress.finish()
        _write(replies, ENDED, reply)


class ProgressWriter:
    """Writes the progress of a call, not more often than the worker can use it. Threads of the call share it."""

    def __init__(self, replies: IO[bytes]) -> None:
        self._replies = replies
        self._lock = threading.Lock()
        self._written = 0.0
        self._left: tuple[float, str] | None = None

    def report(self, done: float, note: str) -> None:
        with self._lock:
            self._left = (done, note)
            if time.monotonic() >= self._written + REPORT_EVERY:
                self._write()

    def finish(self) -> None:
        """Write the last progress. What a thread reports later is not written: the reply follows."""
        with self._lock:
            if self._left is not None:
                self._write()
            self._written = float("inf")

    def _write(self) -> None:
        _write(self._replies, PROGRESS, self._left)
        self._left, self._written = None, time.monotonic()


def _write(pipe: IO[bytes], kind: bytes, message: object) -> None:
    packed = msgspec.msgpack.encode(message)
    pipe.write(kind + len(packed).to_bytes(LENGTH, "big") + packed)
    pipe.flush()


def _read_calls(pipe: IO[bytes], calls: queue.SimpleQueue[Call]) -> None:
    while length := pipe.read(LENGTH):
        calls.put(msgspec.msgpack.decode(pipe.read(int.from_bytes(length, "big")), type=Call))
    os._exit(0)  # the worker has ended


def _run(call: Call) -> Reply:
    try:
        spec = _find(call)
        arguments = spec.arguments.unpack(msgspec.msgpack.decode(call.arguments))
        with _limited_memory(call.memory):
            result = spec.function(**arguments)
    except MemoryError as error:
        return _out_of_memory(error, call.memory)
    except BaseException as error:  # noqa: BLE001 - whatever the user's code raises, also SystemExit
        return _reply_to(error)
    if not call.keep:
        return Reply(b"null")
    try:
        return Reply(encode_result(result))
    except RequestError as error:
        return Reply(refused=str(error))


@contextmanager
def _limited_memory(limit: int | None) -> Iterator[None]:
    """Limit the memory of this process to *limit* bytes, so that Python raises a `MemoryError`. Only Linux can limit it."""
    if limit is None or sys.platform != "linux":
        yield
        return
    import resource  # noqa: PLC0415 - there is none on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))  # so that there is memory for the reply


def _out_of_memory(error: MemoryError, limit: int | None) -> Reply:
    reply = _reply_to(error)
    if limit is not None and not reply.message:
        reply.message = f"it needs more than the {format_bytes(limit)} of memory that --memory-limit allows"
    return reply


def _reply_to(error: BaseException) -> Reply:
    if isinstance(error, RetryLater):
        return Reply(later=True, after=error.after, message=_plain(error.why))
    return Reply(
        error=_plain(type(error).__name__),
        message=_plain(message_of(error)),
        traceback=_plain("".join(traceback.format_exception(error))),
        missing=_plain(error.name or "") if isinstance(error, ModuleNotFoundError) else "",
    )


def _plain(text: str) -> str:
    """Return a text that can be sent: lone surrogates are replaced."""
    return text.encode(errors="replace").decode()


_found: dict[tuple[str, str, str], TaskSpec] = {}


def _find(call: Call) -> TaskSpec:
    """Return a task of a module. Raises LookupError if the module has none of that name."""
    known = _found.get((call.file, call.queue, call.task))
    if known is None:
        sys.path[:] = call.path
        app = _app_of(call, _load(call))
        app.redis = call.redis or app.redis
        known = _found[call.file, call.queue, call.task] = app.by_name[call.task]
    return known


def _app_of(call: Call, module: ModuleType) -> Tasks:
    """Return the application of the task. A name that depends on the process counts only if two have such a task."""
    tasks = [value for value in vars(module).values() if isinstance(value, Task)]
    apps = [*(task.app for task in tasks), *(value for value in vars(module).values() if isinstance(value, Tasks))]
    having = {app.name: app for app in reversed(apps) if call.task in app.by_name}
    if not having:
        raise LookupError(f"{call.file} has no task named {call.task!r} at the top level of the module")
    return having.get(call.queue) or next(iter(having.values()))


def _load(call: Call) -> ModuleType:
    """Import the module of a task, or load it from its file if it was started as a program or loaded by a worker."""
    name = MAIN if call.module == "__main__" else call.module
    if name in sys.modules:
        return sys.modules[name]
    if name != MAIN:
        try:
            found: Any = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            found = None
        if found and found.origin and Path(found.origin).resolve() == Path(call.file).resolve():
            return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(name, call.file)
    if spec is None or spec.loader is None:
        raise LookupError(f"{call.file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
