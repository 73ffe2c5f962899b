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
import traceback
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import msgspec

from silkline.errors import RequestError
from silkline.frontier.verbs.settle import encode_result
from silkline.tasks.app import Task
from silkline.tasks.spec import TaskSpec

LENGTH = 4
"""Bytes of the length before each call and each reply."""
BEGUN = b"\x06"
"""Written before a call runs, so that the worker knows whether a process died because of it."""
MAIN = "__silkline_main__"
"""The name under which a program is loaded, so that it does not run as a program."""


class Call(msgspec.Struct):
    """A call, as the worker sends it."""

    module: str
    file: str
    task: str
    path: list[str]
    redis: str | None
    """The server of the worker, for further calls."""
    arguments: bytes


class Reply(msgspec.Struct):
    """The end of a call: its result, or its error."""

    result: bytes = b""
    refused: str = ""
    """Why the result cannot be stored."""
    error: str = ""
    traceback: str = ""


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
        reply = msgspec.msgpack.encode(_run(call))
        replies.write(len(reply).to_bytes(LENGTH, "big") + reply)
        replies.flush()


def _read_calls(pipe: IO[bytes], calls: queue.SimpleQueue[Call]) -> None:
    while length := pipe.read(LENGTH):
        calls.put(msgspec.msgpack.decode(pipe.read(int.from_bytes(length, "big")), type=Call))
    os._exit(0)  # the worker has ended


def _run(call: Call) -> Reply:
    try:
        spec = _find(call)
        arguments = spec.arguments.unpack(msgspec.json.decode(call.arguments))
        result = spec.function(**arguments)
    except BaseException as error:  # noqa: BLE001 - whatever the user's code raises, also SystemExit
        text = "".join(traceback.format_exception(error))
        return Reply(error=f"{type(error).__name__}: {error}", traceback=text)
    try:
        return Reply(encode_result(result))
    except RequestError as error:
        return Reply(refused=str(error))


_found: dict[tuple[str, str], TaskSpec] = {}


def _find(call: Call) -> TaskSpec:
    """Return a task of a module. Raises LookupError if the module has none of that name."""
    known = _found.get((call.file, call.task))
    if known is None:
        sys.path[:] = call.path
        module = _load(call)
        tasks = [value for value in vars(module).values() if isinstance(value, Task) and value.spec.name == call.task]
        if not tasks:
            raise LookupError(f"{call.file} has no task named {call.task!r} at the top level of the module")
        tasks[0].app.redis = call.redis or tasks[0].app.redis
        known = _found[call.file, call.task] = tasks[0].spec
    return known


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
