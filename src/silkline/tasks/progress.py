"""The progress of a call: the function of a task reports it, and its worker sends it to the server about once per second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from silkline.errors import RequestError, SilklineError
from silkline.frontier.verbs.results import LONGEST_NOTE

SEND_EVERY = 1.0
"""Seconds between two commands for one call."""

Report = Callable[[float, str], None]
_report: ContextVar[Report | None] = ContextVar("silkline_progress", default=None)


def report_progress(done: float, note: str) -> None:
    """Report the progress of the call that runs here. Does nothing if none does."""
    if isinstance(done, bool) or not isinstance(done, int | float) or not 0 <= done <= 1:
        raise RequestError(f"progress is a number from 0 to 1, got {done!r:.100}")
    if not isinstance(note, str):
        raise RequestError(f"the note of a progress is a string, got {note!r:.100}")
    report = _report.get()
    if report is not None:
        report(float(done), note[:LONGEST_NOTE].encode(errors="replace").decode())


@contextmanager
def reporting_to(report: Report) -> Iterator[None]:
    """Call *report* with each progress that is reported in this context, from any thread."""
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)


class ProgressSender:
    """Sends the latest progress of one call with *send*, at most once per `SEND_EVERY`."""

    def __init__(self, send: Callable[[float, str], Awaitable[object]]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._latest: tuple[float, str] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._ended = False

    def report(self, done: float, note: str) -> None:
        """Note a progress, in any thread."""
        is_awaited = self._latest is not None  # by the task that sends
        self._latest = (done, note)
        if not is_awaited:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._start)

    def _start(self) -> None:
        if self._sending is None and not self._ended:
            self._sending = asyncio.create_task(self._send_all())

    async def _send_all(self) -> None:
        while self._latest is not None:
            await self._send_latest()
            await asyncio.sleep(SEND_EVERY)
        self._sending = None

    async def _send_latest(self) -> None:
        latest, self._latest = self._latest, None
        if latest is not None:
            with suppress(SilklineError):  # a progress is not worth a failure
                await self._send(*latest)

    def stop(self) -> None:
        """Send nothing more."""
        self._ended = True
        if self._sending is not None:
            self._sending.cancel()

    async def finish(self) -> None:
        """Send what was not sent yet: a call that fails shows how far it came."""
        self.stop()
        await self._send_latest()
