"""Reports: a worker process tells whoever started it how it stands, a line of JSON at a time."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, get_args, get_origin

import msgspec

from silkline.worker.tally import Tally

if TYPE_CHECKING:
    from silkline.worker.worker import Worker

log = logging.getLogger(__name__)

EVERY = 0.25
LOG_EVERY = 5.0


class Report(msgspec.Struct):
    """How one worker process stands."""

    pid: int
    tally: Tally
    in_flight: int = 0
    trouble: str | None = None
    """What keeps it from claiming, if anything does."""
    stall: str | None = None
    """Why nothing is claimed though it should be; see `Worker.stall`."""
    hung: bool = False
    ordered: bool = False
    """Whether it stops because an operator has ordered it."""


async def keep_reporting(worker: Worker, descriptor: int) -> None:
    """Write a report four times a second. When nobody reads any more, whoever started us is gone: stop."""
    while True:
        try:
            send_report(worker, descriptor)
        except OSError:
            worker.stop()
            return
        await asyncio.sleep(EVERY)


def send_report(worker: Worker, descriptor: int) -> None:
    report = Report(
        os.getpid(), worker.tally, worker.in_flight, worker.trouble, worker.stall, worker.hung, worker.ordered
    )
    _send(report, descriptor)


def tell_trouble(descriptor: int | None, trouble: str) -> None:
    """Report what keeps the process from having a worker yet: one that waits for a sink does not hang."""
    if descriptor is not None:
        with suppress(OSError):  # nobody reads; the worker finds that out as soon as there is one
            _send(Report(os.getpid(), Tally(), trouble=trouble, stall=trouble), descriptor)


def _send(report: Report, descriptor: int) -> None:
    data = msgspec.json.encode(report) + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]


def read_report(line: bytes) -> Report:
    return _decoder.decode(line)


def _counter(kind: Any, value: Any) -> Any:
    """A counter is an object in JSON, whose names are always text."""
    if get_origin(kind) is not Counter:
        raise NotImplementedError
    (name,) = get_args(kind)
    return Counter({name(key): count for key, count in value.items()})


_decoder = msgspec.json.Decoder(Report, dec_hook=_counter)


async def keep_logging(worker: Worker) -> None:
    """Say how it goes, for people who look on."""
    before, then = 0, time.monotonic()
    while True:
        await asyncio.sleep(LOG_EVERY)
        tally, now = worker.tally, time.monotonic()
        rate = (tally.pages - before) / (now - then)
        log.info(
            "%s pages (%.1f/s), %s items, %s under way, %s retries, %s dead",
            *(f"{tally.pages:,}", rate, f"{tally.items:,}", worker.in_flight, tally.retried, tally.buried),
        )
        before, then = tally.pages, now
