"""One worker process, from its first connection to its last report."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import Any, NamedTuple

from silkline.core.errors import SinkUnavailable
from silkline.frontier.frontier import Frontier
from silkline.frontier.overflow import Overflow
from silkline.sinks.sink import Sink, open_sink
from silkline.worker.crawl import Crawl
from silkline.worker.pace import Pace
from silkline.worker.report import keep_logging, keep_reporting, send_report, tell_trouble
from silkline.worker.tally import Tally
from silkline.worker.worker import Observe, Worker

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0

try:
    import uvloop

    new_event_loop: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
except ImportError:  # on platforms that have none
    new_event_loop = None


def run_async(main: Any) -> Any:
    """`asyncio.run` on the fastest loop there is."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


Beside = Callable[[Frontier, Worker], AbstractAsyncContextManager[object]]


def _nobody(_frontier: Frontier, _worker: Worker) -> AbstractAsyncContextManager[object]:
    return nullcontext()


class Company(NamedTuple):
    """Who is with a worker while it works: somebody around every attempt, and somebody beside it all the time."""

    observe: Observe | None = None
    beside: Beside = _nobody


async def work(  # noqa: PLR0913 - what a worker process may be told
    crawl: Crawl,
    redis: str | None,
    outs: Sequence[str] = (),
    *,
    pace: Pace | None = None,
    forever: bool = False,
    report_to: int | None = None,
    company: Company | None = None,
    overflow: Overflow | None = None,
) -> Tally:
    """Work on a crawl that exists until it is finished, or until SIGTERM or SIGINT; what is under way is ended first."""
    pace, company = pace or Pace(), company or Company()
    gc.freeze()  # what is loaded by now stays; looking through it again and again costs a tenth of the time
    gc.set_threshold(20_000, 20, 20)
    async with (
        await Frontier.open(redis, crawl=crawl.name, create=False, lease=pace.lease, overflow=overflow) as frontier,
        open_sinks(outs, redis, crawl.sink_makers, waiting=partial(tell_trouble, report_to)) as sinks,
    ):
        worker = Worker(crawl, frontier, sinks=sinks, pace=pace, forever=forever, observe=company.observe)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.stop)
        reporting = asyncio.create_task(
            keep_logging(worker) if report_to is None else keep_reporting(worker, report_to)
        )
        try:
            async with company.beside(frontier, worker):
                return await worker.run()
        finally:
            reporting.cancel()
            if report_to is not None:
                with suppress(OSError):
                    send_report(worker, report_to)


@asynccontextmanager
async def open_sinks(
    outs: Sequence[str],
    redis: str | None,
    makers: Sequence[Callable[[], Sink]] = (),
    *,
    waiting: Callable[[str], object] | None = None,
) -> AsyncIterator[list[Sink]]:
    """All sinks, the user's own too, closed at the end. Those that are down are waited for if *waiting* is told why."""
    sinks: list[Sink] = []
    try:
        for out in outs:
            sink = await (_wait_for_sink(out, redis, waiting) if waiting else _open_one(out, redis))
            sinks.append(sink)
        sinks += [make() for make in makers]
        yield sinks
    finally:
        for sink in sinks:
            await sink.close()


async def _open_one(out: str, redis: str | None) -> Sink:
    return await asyncio.to_thread(open_sink, out, redis=redis)


async def _wait_for_sink(out: str, redis: str | None, waiting: Callable[[str], object]) -> Sink:
    pause = FIRST_PAUSE
    while True:
        try:
            return await _open_one(out, redis)
        except SinkUnavailable as error:
            log.warning("%s; trying again", error)
            waiting(str(error))
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
