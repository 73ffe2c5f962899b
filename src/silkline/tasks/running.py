"""Running a task: an async function on the event loop, a plain one in a thread, one with ``cpu=True`` in a process.

The time limit holds for all three. An async function is cancelled, and fails if it blocks; a process is killed and replaced. A thread cannot be ended
from outside: its call counts as failed, the thread keeps running, and its result is dropped.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from silkline.core.error_text import message_of
from silkline.core.retries import RetryLater
from silkline.errors import ConfigError
from silkline.tasks.child import BEGUN, LENGTH, PROGRESS, Call, Reply
from silkline.tasks.progress import report_progress
from silkline.tasks.spec import TaskSpec

log = logging.getLogger(__name__)

LARGEST = 2**26
PATIENCE = 5.0
"""Seconds for which a call waits for a process before it is given back."""


class TimedOut(Exception):
    """A call took longer than the time limit of its task."""


class NoPlace(Exception):
    """All processes of this worker were busy for a while, so another worker should run the call."""


class ProcessDied(Exception):
    """The process of a call ended before the call did."""


class NotBegun(ProcessDied):
    """The process ended before it began with the call."""


class ResultRefused(Exception):
    """The result of a call in a process is too large, or cannot be written as JSON."""


class ErrorInProcess(Exception):
    """The exception of a call in a process; its traceback is the cause."""


class TracebackInProcess(Exception):
    """The text of a traceback."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class TaskRunner:
    """Runs the calls of one worker, in at most as many *processes* as the machine has cores by default; with 0, in threads.

    *redis* is the server on which tasks in processes enqueue further calls, and *memory* the bytes that each process may use.
    """

    def __init__(self, processes: int | None = None, redis: str | None = None, memory: int | None = None) -> None:
        self._threads = Threads()
        self._processes = Processes((os.cpu_count() or 1) if processes is None else processes, redis, memory)

    async def run(self, spec: TaskSpec, arguments: dict[str, Any]) -> Any:
        """Return the result of a call. Raises what its function raises, `TimedOut`, `ProcessDied` or `NoPlace`."""
        if spec.kind == "process" and self._processes.most:
            return await self._processes.run(spec, arguments)
        limit = asyncio.timeout(spec.timeout)
        try:
            async with limit:
                if spec.kind == "async":
                    return await _in_time(spec, spec.function(**arguments))
                return await self._threads.run(partial(spec.function, **arguments))
        except TimeoutError:
            if not limit.expired():
                raise  # the function's own
            if spec.kind == "thread":
                log.warning(
                    "%s() took longer than %g s; its thread cannot be stopped and keeps running",
                    spec.name,
                    spec.timeout,
                )
            raise _timed_out(spec) from None
        except (Exception, asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise _as_exception(error) from error  # others would end the event loop, or not be noticed

    async def close(self) -> None:
        """End the processes. Threads end when their calls do, or with this process."""
        self._threads.close()
        await self._processes.close()


async def _in_time(spec: TaskSpec, call: Awaitable[Any]) -> Any:
    """Return the result of an async function. One that blocks the event loop cannot be cancelled, and fails afterwards."""
    began = time.monotonic()
    result = await call
    if time.monotonic() > began + spec.timeout:
        raise TimedOut(f"it took longer than {spec.timeout:g} s, and blocked the event loop of its worker")
    return result


def _timed_out(spec: TaskSpec) -> TimedOut:
    return TimedOut(f"it took longer than {spec.timeout:g} s")


def _as_exception(error: BaseException) -> RuntimeError:
    return RuntimeError(f"the task raised {type(error).__name__}: {message_of(error)}")


# ── threads ──


class Threads:
    """Runs functions in threads that are used again. A function that never returns costs its thread, and no other waits for it."""

    def __init__(self) -> None:
        self._idle: list[TaskThread] = []
        self._closed = False

    async def run(self, function: Callable[[], Any]) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        thread = self._idle.pop() if self._idle else TaskThread()
        context = contextvars.copy_context()
        thread.calls.put(partial(self._call, thread, partial(context.run, function), future, loop))
        return await future

    def _call(
        self,
        thread: TaskThread,
        function: Callable[[], Any],
        future: asyncio.Future[Any],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Run a function in its thread."""
        result, error = None, None
        try:
            result = function()
        except BaseException as raised:  # noqa: BLE001 - whatever the user's code raises, also SystemExit
            error = raised
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._ended, thread, future, result, error)

    def _ended(self, thread: TaskThread, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        if self._closed:
            thread.calls.put(None)
        else:
            self._idle.append(thread)
        if future.done():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            future.set_exception(error)
        else:
            future.set_exception(_as_exception(error))

    def close(self) -> None:
        self._closed = True
        for thread in self._idle:
            thread.calls.put(None)
        self._idle.clear()


class TaskThread(threading.Thread):
    """Calls functions one after the other. It is a daemon: a process that ends does not wait for it."""

    def __init__(self) -> None:
        super().__init__(name="silkline-task", daemon=True)
        self.calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        while (call := self.calls.get()) is not None:
            call()


# ── processes ──


class Processes:
    """Runs functions in at most *most* processes, which are used again."""

    def __init__(self, most: int, redis: str | None, memory: int | None) -> None:
        self.most = most
        self._redis = redis
        self._memory = memory
        self._places = asyncio.Semaphore(most)
        self._idle: list[asyncio.subprocess.Process] = []

    async def run(self, spec: TaskSpec, arguments: dict[str, Any]) -> Any:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._places.acquire()
        except TimeoutError:
            raise NoPlace from None
        try:
            reply = await self._run(spec, arguments)
        finally:
            self._places.release()
        if reply.refused:
            raise ResultRefused(reply.refused)
        if reply.later:
            raise RetryLater(reply.after, reply.message)
        if reply.error:
            raise _error_of(reply) from TracebackInProcess(reply.traceback)
        return msgspec.Raw(reply.result)

    async def _run(self, spec: TaskSpec, arguments: dict[str, Any]) -> Reply:
        while True:
            is_new = not self._idle
            process = await _start() if is_new else self._idle.pop()
            try:
                async with asyncio.timeout(spec.timeout):
                    reply = await _ask(process, self._call(spec, arguments))
            except BaseException as error:
                await _end(process)
                if isinstance(error, NotBegun) and not is_new:
                    continue  # it was killed while it was idle
                if isinstance(error, TimeoutError):
                    raise _timed_out(spec) from None
                raise
            self._idle.append(process)
            return reply

    def _call(self, spec: TaskSpec, arguments: dict[str, Any]) -> Call:
        module = spec.function.__module__
        file = getattr(sys.modules.get(module), "__file__", None)
        if file is None:
            raise ConfigError(f"the task {spec.name!r} has cpu=True, and its module {module!r} is not a file")
        return Call(
            module=module,
            file=file,
            queue=spec.queue,
            task=spec.name,
            keep=bool(spec.keep),
            path=sys.path,
            redis=self._redis,
            memory=self._memory,
            arguments=msgspec.msgpack.encode(msgspec.to_builtins(arguments, str_keys=True)),
        )

    async def close(self) -> None:
        """End the processes that are idle; one with a call ends with the call."""
        idle, self._idle = self._idle, []
        for process in idle:
            await _end(process)


def _error_of(reply: Reply) -> Exception:
    """Return the exception of a call as one of this process: its class has the same name."""
    if reply.missing:
        return ModuleNotFoundError(reply.message, name=reply.missing)
    kind: type[ErrorInProcess] = type(reply.error, (ErrorInProcess,), {"__module__": __name__})
    return kind(reply.message)


async def _start() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "silkline.tasks.child"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LARGEST,
        start_new_session=True,  # Ctrl-C is for the worker
    )


async def _ask(process: asyncio.subprocess.Process, call: Call) -> Reply:
    assert process.stdin is not None
    assert process.stdout is not None
    died: type[ProcessDied] = NotBegun
    try:
        process.stdin.write(frame(msgspec.msgpack.encode(call)))
        await process.stdin.drain()
        await process.stdout.readexactly(len(BEGUN))
        died = ProcessDied
        while await process.stdout.readexactly(len(PROGRESS)) == PROGRESS:
            report_progress(*msgspec.msgpack.decode(await _message(process.stdout), type=tuple[float, str]))
        return msgspec.msgpack.decode(await _message(process.stdout), type=Reply)
    except (asyncio.IncompleteReadError, ConnectionError):
        code = await process.wait()
        raise died(f"its process {_cause(code)}") from None


async def _message(pipe: asyncio.StreamReader) -> bytes:
    length = int.from_bytes(await pipe.readexactly(LENGTH), "big")
    return await pipe.readexactly(length)


def frame(message: bytes) -> bytes:
    """Return a message with its length before it."""
    return len(message).to_bytes(LENGTH, "big") + message


def _cause(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill a process and wait for its end, also if this task is cancelled meanwhile."""
    with suppress(ProcessLookupError):
        process.kill()
    with suppress(asyncio.CancelledError):
        await process.wait()
