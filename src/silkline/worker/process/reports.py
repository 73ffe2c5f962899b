"""Reports: a worker process reports its state to the process that started it, one line of JSON at a time."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, get_args, get_origin

import msgspec

from silkline.runtime.counters import Counters

if TYPE_CHECKING:
    from silkline.worker.worker import Worker

log = logging.getLogger(__name__)

EVERY = 0.25
LOG_EVERY = 5.0
LAST_REPORT = 1.0
MOST_HELD = 1000


class WorkerReport(msgspec.Struct):
    """The state of one worker process."""

    pid: int
    counters: Counters
    in_flight: int = 0
    trouble: str | None = None
    """Why it cannot claim; None if it can."""
    stall: str | None = None
    """Why it claims nothing although it should; see `Worker.stall`."""
    hung: bool = False
    ordered: bool = False
    """Whether it stops because an operator has ordered it."""
    gives_back: dict[str, int] = {}
    """Pages that it cannot handle and gave back, by need; see `UnmetNeeds.waiting`."""
    working: bool = False
    """Whether its event loop works on pages. If reports stop then, the loop is blocked."""
    ended: str | None = None
    """Why it ends itself; see `Trouble.what`."""
    held: list[tuple[int, str]] = []
    """Shard and token of each lease that it holds."""


class ReportWriter:
    """Writes reports to a pipe. A reader that is slow or stopped never blocks the worker: then reports are left out."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._rest = b""
        self._lock = threading.Lock()  # the watchdog's thread writes the last one

    async def keep_reporting(self, worker: Worker) -> None:
        """Write a report four times a second. Stop when the parent process, which reads them, is gone."""
        while True:
            try:
                self._send(report_of(worker))
            except OSError:
                worker.stop()
                return
            await asyncio.sleep(EVERY)

    def report_trouble(self, trouble: str) -> None:
        """Report why the process has no worker yet: a process that waits for a sink does not hang."""
        with suppress(OSError):  # the parent is gone; the worker notices it with its first report
            self._send(WorkerReport(os.getpid(), Counters(), trouble=trouble, stall=trouble))

    def end(self, worker: Worker, ended: str | None = None) -> None:
        """Write the last report, as far as the pipe has room for it within a moment."""
        report = report_of(worker)
        report.working, report.ended = False, ended
        deadline = time.monotonic() + LAST_REPORT
        with suppress(OSError):
            while not self._send(report) and time.monotonic() < deadline:
                select.select([], [self._descriptor], [], LAST_REPORT)
            while not self._flush() and time.monotonic() < deadline:
                select.select([], [self._descriptor], [], LAST_REPORT)

    def _send(self, report: WorkerReport) -> bool:
        """Write a report, now or with the next one. Returns False if there was no room for it."""
        if not self._flush():
            return False
        with self._lock:
            self._rest = msgspec.json.encode(report) + b"\n"
        self._flush()
        return True

    def _flush(self) -> bool:
        """Write what is left of the last report. Returns whether all of it was written."""
        with self._lock, suppress(BlockingIOError):
            while self._rest:
                self._rest = self._rest[os.write(self._descriptor, self._rest) :]
        return not self._rest


def report_of(worker: Worker) -> WorkerReport:
    state = (
        worker.trouble or worker.proxy_trouble,
        worker.stall,
        worker.hung,
        worker.ordered,
        worker.unmet_needs.waiting,
    )
    held = [(lease.shard, lease.wire_token) for lease in worker.held[:MOST_HELD]]
    return WorkerReport(os.getpid(), worker.counters, worker.in_flight, *state, working=True, held=held)


def read_report(line: bytes) -> WorkerReport:
    return _decoder.decode(line)


def _counter(kind: Any, value: Any) -> Any:
    """Decode a counter: in JSON it is an object, whose names are always text."""
    if get_origin(kind) is not Counter:
        raise NotImplementedError
    (name,) = get_args(kind)
    return Counter({name(key): count for key, count in value.items()})


_decoder = msgspec.json.Decoder(WorkerReport, dec_hook=_counter)


async def keep_logging(worker: Worker) -> None:
    """Log the progress every few seconds."""
    before, then = 0, time.monotonic()
    while True:
        await asyncio.sleep(LOG_EVERY)
        counters, now = worker.counters, time.monotonic()
        rate = (counters.pages - before) / (now - then)
        done = f"{counters.pages:,} pages ({rate:.1f}/s), {counters.items:,} items"
        if not worker.crawl.has_pages:
            done = f"{counters.pages:,} tasks ({rate:.1f}/s)"
        log.info("%s, %s in progress, %s retries, %s dead", done, worker.in_flight, counters.retried, counters.buried)
        before, then = counters.pages, now
